"""Page Compare: the paired differences of two cells, and the questions on which they differ most."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.calibration import NOT_SIGNIFICANT, SIGNIFICANT, difference_chart
from prmcal.dashboard.charts.cells import baseline_of, comparable_with, place_with, rival_of
from prmcal.dashboard.charts.findings import compared, draw
from prmcal.dashboard.controls.address import bound, given
from prmcal.dashboard.controls.cells import names_here, pick_cell
from prmcal.dashboard.controls.context import CHOICES, Context, context_of
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import MISSING, escaped, estimate, integers, kept, numbers, with_line_breaks
from prmcal.dashboard.views.shared import show_table
from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard, Metrics
from prmcal.db.queries.two_cells import CellComparison
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.errors import ArtifactError, IncomparableCellsError

_EXCERPT, _WORDS = 90, 9  # characters of a question, and words in a line
_DIFFERENCE = "A \N{MINUS SIGN} B"


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Compare")
    boards = {table: _finished(path, table) for table in LEADERBOARDS}
    boards = {table: cells for table, cells in boards.items() if len(cells) > 1}
    if not boards:
        st.info("A comparison needs two finished cells. This run has fewer so far.")
        return
    pair = _pick_cells(path, boards)
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
    _table(found, described)
    _questions(context_of(path), found)


def _finished(path: Path, table: Leaderboard) -> pd.DataFrame:
    cells: pd.DataFrame = ask(catalog.leaderboard, path, table=table)
    return cells[cells["status"] == "done"]


def _pick_cells(path: Path, boards: dict[Leaderboard, pd.DataFrame]) -> tuple[str, str] | None:
    """Let the reader pick two cells. Return None if there is nothing to compare with the first."""
    table = _choose_leaderboard(boards)
    cells, described = boards[table], ask(catalog.metrics, path)
    metric = described[LEADERBOARDS[table].main_metrics[0]]
    place = place_with(cells, names_here(path, cells, context_of(path).wanted()))
    first = pick_cell(
        cells,
        "a",
        baseline_of(place, ask(catalog.with_role, path, role="baseline"), metric),
        label="A · ",
        resets=["b"],
    )
    others = comparable_with(cells, first)
    if others.empty:
        return None
    second = pick_cell(others, "b", rival_of(others, first, metric), label="B · ", fixed=["dataset"])
    return first["cell_id"], second["cell_id"]


def _choose_leaderboard(boards: dict[Leaderboard, pd.DataFrame]) -> Leaderboard:
    """Let the reader choose a leaderboard. By default, it is the one of the cells in the address."""
    owners = {cell: table for table, cells in boards.items() for cell in cells["cell_id"]}
    named = next((owners[cell] for cell in (*given("a"), *given("b")) if cell in owners), None)
    chosen: Leaderboard = st.segmented_control(
        "Leaderboard",
        list(boards),
        format_func=lambda table: LEADERBOARDS[table].title,
        required=True,
        label_visibility="collapsed",
        **bound("leaderboard", list(boards), named, resets=["a", "b"]),
    )
    return chosen


def _chart(found: CellComparison, described: Metrics) -> None:
    # Metrics of similar size only.
    charted = {name for name in described if described.better(name)} | {"budget_ratio"}
    shown = found.table[found.table["metric"].isin(charted)]
    rows = (
        shown[["difference", "low", "high"]]
        .astype(float)
        .assign(
            metric=shown["metric"].map(described.title),
            significance=[SIGNIFICANT if real else NOT_SIGNIFICANT for real in shown["real"]],
        )
    )
    draw(difference_chart(rows), compared(shown.itertuples()))


def _table(found: CellComparison, described: Metrics) -> None:
    rows = list(found.table.itertuples())
    show_table(
        {
            "Metric": [escaped(described.title(row.metric)) for row in rows],
            "A": [escaped(estimate(row.a, row.a_low, row.a_high)) for row in rows],
            "B": [escaped(estimate(row.b, row.b_low, row.b_high)) for row in rows],
            _DIFFERENCE: [
                escaped(estimate(row.difference, row.low, row.high, mark="†" if row.from_zero else ""))
                for row in rows
            ],
            "p": [_p_value(each) for each in found.p_values],
            "Holm's correction": [MISSING if row.pairs is None else f"{row.pairs} pairs" for row in rows],
            "Significant": ["yes" if row.real else "no" for row in rows],
        }
    )
    distances = (
        "† Difference of the distances from 0, which is the best value of the metric. "
        if found.table["from_zero"].any()
        else ""
    )
    st.caption(
        f"Values with 95% intervals over questions. Differences are paired. {distances}Significant: "
        f"p < {SIGNIFICANCE}. If both cells have the same LLM and PRM, p is adjusted by Holm's correction for all "
        "pairs of cells in their group on the leaderboard. A dash means that p is not adjusted."
    )


def _questions(context: Context, found: CellComparison) -> None:
    st.header("Questions with the largest differences")
    differing = found.differing
    if differing.empty:
        st.info(
            "The cells do not differ on any question, or the database has no values for their single questions."
        )
        return
    own = {kind: found.a[kind] for kind in CHOICES if found.a[kind]}
    texts = [_excerpt(kept(text)) for text in differing["question"]]
    show_table(
        {
            "Question": [
                f"[{escaped(each)}]({context.link('trajectories', question=each, **own)})"
                for each in differing["question_id"]
            ],
            "Level": integers(differing["question_level"]),
            "A": numbers(differing["value_a"]),
            "B": numbers(differing["value_b"]),
            _DIFFERENCE: numbers(differing["difference"]),
            "Text": [with_line_breaks(escaped(text), _WORDS) for text in texts],
        }
    )
    st.caption(
        "A and B: squared error, averaged over the prefixes of the question."
        if found.prefixes
        else "A and B: accuracy on the question."
    )


def _p_value(value: float) -> str:
    if pd.isna(value):
        return MISSING
    return escaped("< 0.001") if value < 0.001 else f"{value:.2g}"


def _excerpt(text: str | None) -> str:
    flat = " ".join((text or "").split())
    return flat if len(flat) <= _EXCERPT else f"{flat[: _EXCERPT - 1]}…"
