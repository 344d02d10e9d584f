"""Page Compare: two cells, and the questions on which they differ most."""

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard import formats
from prmcal.dashboard.charts import answers
from prmcal.dashboard.charts import trajectory as charts
from prmcal.dashboard.charts.curves import likest
from prmcal.dashboard.charts.drawn import interval_chart
from prmcal.dashboard.controls import context
from prmcal.dashboard.controls.widgets import ask, bound
from prmcal.dashboard.views.shared import show_question, show_table
from prmcal.db import catalog
from prmcal.db.charts import BLUE, GREY, RUST, Series, legend
from prmcal.db.metrics import RANKING_METRIC, Leaderboard, Metrics
from prmcal.db.queries.two_cells import CellComparison
from prmcal.db.text.board import comparison_board, questions_board
from prmcal.db.text.formats import LEADERBOARDS, typeset
from prmcal.errors import ArtifactError, IncomparableCellsError

_DECISIVE = {"calibration": RANKING_METRIC, "scaling": "accuracy", "league": "area"}
_CHARTED = 6  # metrics in the chart
_EXCERPT = 90  # characters of a question
_MINUS = "\N{MINUS SIGN}"
_AXIS = f"B {_MINUS} A"
_OUTCOMES = ["B is better", "B is worse", "not clear"]
_SERIES = Series(_OUTCOMES, [BLUE, RUST, GREY], [[1, 0]] * 3, ["circle"] * 3)


def show(path: Path) -> None:
    """Show the page for a published database."""
    answer = show_question("Is B better than A?")
    boards = {table: ask(catalog.leaderboard, path, table=table) for table in LEADERBOARDS}
    boards = {table: cells[cells["status"] == "done"] for table, cells in boards.items()}
    boards = {table: cells for table, cells in boards.items() if len(cells) > 1}
    if not boards:
        st.info("A comparison needs two finished cells. This run has fewer so far.")
        return
    with context.folded("A and B"):
        table = context.choose_leaderboard(list(boards), "a", "b")
        pair = _pick_cells(path, boards[table], table)
    if pair is None:
        st.info("No other cell of this leaderboard and data set is finished.")
        return
    try:
        found: CellComparison = ask(catalog.compare_cells, path, cell_a=pair[0], cell_b=pair[1])
    except (ArtifactError, IncomparableCellsError) as error:
        st.info(formats.escaped(str(error)))
        return
    described: Metrics = ask(catalog.metrics, path)
    answer.markdown(answers.of_comparison(found, described[_DECISIVE[table]]))
    _chart(found, described)
    with st.expander(f"All {len(found.table)} metrics in numbers"):
        board = comparison_board(found, described.title)
        st.caption(formats.escaped(board.legend))
        show_table({each.title: [formats.escaped(typeset(text)) for text in each.values] for each in board.columns})
    _questions(context.context_of(path), found)


def _pick_cells(path: Path, cells: pd.DataFrame, table: Leaderboard) -> tuple[str, str] | None:
    """Let the reader pick two cells of a data set. Return None if there is nothing to compare with the first.

    By default, these are an uncalibrated cell of the setting in the context, and the best one of the same setting.
    """
    metric = ask(catalog.metrics, path)[LEADERBOARDS[table].main_metrics[0]]
    first_names = {kind: next(iter(cells[kind].dropna()), None) for kind in context.CHOICES}
    setting = {**first_names, **context.context_of(path).wanted}
    baseline = next(iter(ask(catalog.with_role, path, role="baseline")), None)
    first = likest(cells, {**setting, "calibrator": baseline}, metric)["cell_id"].iloc[0]
    left, right = st.columns(2)
    with left:
        first = _pick("a", cells, str(first))
    picked = dict(cells[cells["cell_id"] == first].iloc[0])
    others = cells[(cells["dataset"] == picked["dataset"]) & (cells["cell_id"] != first)]
    if others.empty:
        return None
    same = others[others["llm"] == picked["llm"]]
    others = others if same.empty else same
    alike = {kind: picked[kind] for kind in ("prm", "strategy", "target", "level")}
    others = likest(others, alike, metric)
    with right:
        return first, _pick("b", others, str(others["cell_id"].iloc[0]))


def _pick(parameter: str, cells: pd.DataFrame, default: str) -> str:
    """Let the reader pick one of these cells, whose identifier the parameter has. Another A has another B."""
    names = list(cells["cell_id"])
    return str(st.selectbox(parameter.upper(), names, **bound(parameter, names, default, resets=["b"])))


def _chart(found: CellComparison, described: Metrics) -> None:
    # Metrics of similar size of which some values are better, the main ones first.
    main = [*LEADERBOARDS[found.a["leaderboard"]].main_metrics]
    judged = [name for name in found.table["metric"] if described[name].better]
    shown = found.table.set_index("metric").loc[sorted(judged, key=lambda name: name not in main)[:_CHARTED]]
    rows = shown[["low", "high"]].astype(float)
    rows = rows.assign(label=[described.title(name) for name in rows.index], value=shown["difference"].astype(float))
    rows["series"] = [
        _OUTCOMES[2] if not row.real else _OUTCOMES[not answers.improves(described[str(row.Index)], row.difference)]
        for row in shown.itertuples()
    ]
    outcomes = [each for each in _OUTCOMES if each in set(rows["series"])]
    chart = interval_chart(rows, _AXIS, _SERIES, zero=True, shown=legend(outcomes, lines=False))
    charts.draw(chart, charts.extremes(_AXIS, rows["label"], rows["value"]))


def _questions(here: context.Context, found: CellComparison) -> None:
    board = questions_board(found)
    st.header("Where they differ most")
    if found.differing.empty:
        st.info(formats.CAPTIONS["no questions"])
        return
    own = {kind: found.a[kind] for kind in context.CHOICES if found.a[kind]}
    names, *others, texts = board.columns
    # The text of a question says more than its name, and a narrow screen has no room for both.
    links = [
        f"[{formats.escaped(text[:_EXCERPT] or name)}]({here.link('trajectories', question=name, **own)})"
        for name, text in zip(names.values, texts.values, strict=True)
    ]
    columns = {
        each.title[:1].upper() + each.title[1:].replace("-", _MINUS): formats.texts(map(typeset, each.values))
        for each in others
    }
    show_table({"Question": links, **columns})
    st.caption(f"{board.title}. A click shows the steps.")
