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
        comparison: CellComparison = ask(catalog.compare_cells, path, cell_a=pair[0], cell_b=pair[1])
    except (ArtifactError, IncomparableCellsError) as error:
        st.info(formats.escaped(str(error)))
        return
    descriptions: Metrics = ask(catalog.metrics, path)
    answer.markdown(answers.of_comparison(comparison, descriptions[_DECISIVE[table]]))
    _chart(comparison, descriptions)
    with st.expander(f"All {len(comparison.table)} metrics in numbers"):
        board = comparison_board(comparison, descriptions.title)
        st.caption(formats.escaped(board.legend))
        cells = {column.title: map(typeset, column.values) for column in board.columns}
        show_table({title: list(map(formats.escaped, texts)) for title, texts in cells.items()})
    _questions(context.context_of(path), comparison)


def _pick_cells(path: Path, cells: pd.DataFrame, table: Leaderboard) -> tuple[str, str] | None:
    """Let the reader pick two cells of a data set. Return None if there is nothing to compare with the first.

    By default, these are an uncalibrated cell of the setting in the context, and the best cell of the setting.
    """
    metric = ask(catalog.metrics, path)[LEADERBOARDS[table].main_metrics[0]]
    first_names = {kind: next(iter(cells[kind].dropna()), None) for kind in context.CHOICES}
    setting = {**first_names, **context.context_of(path).first_names}
    baseline = next(iter(ask(catalog.with_role, path, role="baseline")), None)
    cell_a = likest(cells, {**setting, "calibrator": baseline}, metric)["cell_id"].iloc[0]
    left, right = st.columns(2)
    with left:
        cell_a = _pick("a", cells, str(cell_a))
    picked = dict(cells[cells["cell_id"] == cell_a].iloc[0])
    rivals = cells[(cells["dataset"] == picked["dataset"]) & (cells["cell_id"] != cell_a)]
    if rivals.empty:
        return None
    same_llm = rivals[rivals["llm"] == picked["llm"]]
    rivals = rivals if same_llm.empty else same_llm
    alike = {kind: picked[kind] for kind in ("prm", "strategy", "target", "level")}
    rivals = likest(rivals, alike, metric)
    with right:
        return cell_a, _pick("b", rivals, str(rivals["cell_id"].iloc[0]))


def _pick(parameter: str, cells: pd.DataFrame, default: str) -> str:
    """Let the reader pick one of these cells. The parameter has its identifier. A new A resets B."""
    names = list(cells["cell_id"])
    return str(st.selectbox(parameter.upper(), names, **bound(parameter, names, default, resets=["b"])))


def _chart(comparison: CellComparison, descriptions: Metrics) -> None:
    # Metrics of similar size of which some values are better, the main ones first.
    main = [*LEADERBOARDS[comparison.a["leaderboard"]].main_metrics]
    names = [name for name in comparison.table["metric"] if descriptions[name].better]
    charted = comparison.table.set_index("metric").loc[sorted(names, key=lambda name: name not in main)[:_CHARTED]]
    rows = charted[["low", "high"]].astype(float)
    rows = rows.assign(label=list(map(descriptions.title, rows.index)), value=charted["difference"].astype(float))
    rows["series"] = [
        _OUTCOMES[2] if not row.real else _OUTCOMES[not answers.improves(descriptions[str(row.Index)], row.difference)]
        for row in charted.itertuples()
    ]
    outcomes = [outcome for outcome in _OUTCOMES if outcome in set(rows["series"])]
    chart = interval_chart(rows, _AXIS, _SERIES, zero=True, shown_legend=legend(outcomes, lines=False))
    charts.draw(chart, charts.extremes(_AXIS, rows["label"], rows["value"]))


def _questions(here: context.PageContext, comparison: CellComparison) -> None:
    board = questions_board(comparison)
    st.header("Where they differ most")
    if comparison.differing.empty:
        st.info(formats.CAPTIONS["no questions"])
        return
    choice = {kind: name for kind in context.CHOICES if (name := comparison.b[kind] or comparison.a[kind])}
    names, *middle, texts = board.columns
    # The text of a question says more than its name, and a narrow screen has no room for both.
    links = [
        f"[{formats.escaped(text[:_EXCERPT] or name)}]({here.link('trajectories', question=name, **choice)})"
        for name, text in zip(names.values, texts.values, strict=True)
    ]
    columns = {
        column.title[:1].upper() + column.title[1:].replace("-", _MINUS): formats.texts(map(typeset, column.values))
        for column in middle
    }
    show_table({"Question": links, **columns})
    st.caption(f"{board.title}. A click shows the steps.")
