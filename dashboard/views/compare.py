"""Page Compare: the paired differences of two cells, and the questions on which they differ most."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.calibration import interval_chart
from prmcal.dashboard.charts.cells import likest
from prmcal.dashboard.charts.findings import draw, extremes
from prmcal.dashboard.controls.cells import choose_leaderboard, pick_cell
from prmcal.dashboard.controls.context import CHOICES, Context, context_of
from prmcal.dashboard.controls.widgets import show_board
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import escaped, names
from prmcal.dashboard.views.shared import show_table
from prmcal.db import catalog
from prmcal.db.charts import legend, two_kinds
from prmcal.db.metrics import Leaderboard, Metrics
from prmcal.db.queries.two_cells import CellComparison
from prmcal.db.text.comparison import comparison_board, questions_board
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.errors import ArtifactError, IncomparableCellsError

_EXCERPT = 90  # characters of a question
_DIFFERENCE = "A \N{MINUS SIGN} B"
_SERIES = two_kinds("significant", "not significant")


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Compare")
    boards = {table: ask(catalog.leaderboard, path, table=table) for table in LEADERBOARDS}
    boards = {table: cells[cells["status"] == "done"] for table, cells in boards.items()}
    boards = {table: cells for table, cells in boards.items() if len(cells) > 1}
    if not boards:
        st.info("A comparison needs two finished cells. This run has fewer so far.")
        return
    table = choose_leaderboard(list(boards), "a", "b")
    pair = _pick_cells(path, boards[table], table)
    if pair is None:
        st.info("No other cell of this leaderboard and data set is finished.")
        return
    try:
        found: CellComparison = ask(catalog.compare_cells, path, cell_a=pair[0], cell_b=pair[1])
    except (ArtifactError, IncomparableCellsError) as error:
        st.info(escaped(str(error)))
        return
    st.caption(found.paired_over)
    described: Metrics = ask(catalog.metrics, path)
    _chart(found, described)
    board = comparison_board(found, described.title)
    show_board(board, f"comparison {pair}")
    st.caption(escaped(board.legend))
    _questions(context_of(path), found)


def _pick_cells(path: Path, cells: pd.DataFrame, table: Leaderboard) -> tuple[str, str] | None:
    """Let the reader pick two cells of a data set. Return None if there is nothing to compare with the first.

    By default, these are an uncalibrated cell of the place in the context, and the best one of the same place.
    """
    metric = ask(catalog.metrics, path)[LEADERBOARDS[table].main_metrics[0]]
    place = {**{kind: next(iter(cells[kind].dropna()), None) for kind in CHOICES}, **context_of(path).wanted}
    baseline = next(iter(ask(catalog.with_role, path, role="baseline")), None)
    first = likest(cells, {**place, "calibrator": baseline}, metric)["cell_id"].iloc[0]
    first = pick_cell("A", cells, "a", str(first), resets=["b"])
    picked = dict(cells[cells["cell_id"] == first].iloc[0])
    others = cells[(cells["dataset"] == picked["dataset"]) & (cells["cell_id"] != first)]
    if others.empty:
        return None
    alike = {kind: picked[kind] for kind in ("llm", "prm", "strategy", "target", "level")}
    others = likest(others, alike, metric)
    return first, pick_cell("B", others, "b", str(others["cell_id"].iloc[0]))


def _chart(found: CellComparison, described: Metrics) -> None:
    # Metrics of similar size only.
    charted = {name for name in described if described.better(name)} | {"budget_ratio"}
    shown = found.table[found.table["metric"].isin(charted)]
    rows = shown[["low", "high"]].astype(float)
    rows = rows.assign(
        label=shown["metric"].map(described.title),
        series=["significant" if real else "not significant" for real in shown["real"]],
        value=shown["difference"].astype(float),
    )
    real = rows[rows["series"] == "significant"]
    finding = f"{len(real)} of {len(rows)} differences are significant. "
    draw(
        interval_chart(rows, _DIFFERENCE, _SERIES, zero=True, shown=legend(lines=False)),
        finding + extremes(_DIFFERENCE, rows["label"], rows["value"]),
    )


def _questions(context: Context, found: CellComparison) -> None:
    board = questions_board(found)
    st.header(board.title)
    if found.differing.empty:
        st.info(
            "The cells do not differ on any question, or the database has no values for their single questions."
        )
        return
    own = {kind: found.a[kind] for kind in CHOICES if found.a[kind]}
    questions, *others = board.columns
    links = [
        f"[{escaped(each)}]({context.link('trajectories', question=each, **own)})"
        for each in questions.values
    ]
    shown = {each.title.capitalize(): names(text[:_EXCERPT] for text in each.values) for each in others}
    show_table({"Question": links, **shown})
