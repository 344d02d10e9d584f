"""Page Compare: the paired differences of two cells, and the questions on which they differ most."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.intervals import NOT_SIGNIFICANT, SIGNIFICANT, difference_chart
from prmcal.dashboard.charts.style import draw
from prmcal.dashboard.controls.address import bound, link
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.findings import compared
from prmcal.dashboard.text.formats import (
    MISSING,
    escaped,
    estimate,
    integers,
    numbers,
    with_line_breaks,
)
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.metrics import METRICS
from prmcal.db.queries.two_cells import CellComparison
from prmcal.db.statistics.standings import SIGNIFICANCE
from prmcal.db.text.presentation import metric_title
from prmcal.errors import ArtifactError, IncomparableCellsError

__all__ = ["show"]

_EXCERPT, _WORDS = 90, 9  # characters of a question, and words in a line
_DIFFERENCE = "A \N{MINUS SIGN} B"
# The chart shows metrics of similar size only.
_CHARTED = {name for name, metric in METRICS.items() if metric.better} | {"budget_ratio"}


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Compare")
    cells = ask(path, "cells")
    done = cells[cells["status"] == "done"].set_index("cell_id")
    if len(done) < 2:
        st.info("A comparison needs two finished cells. This run has fewer so far.")
        return
    first = st.selectbox("A", list(done.index), **bound("a"))
    second = st.selectbox("B", _candidates(done, first), **bound("b"))
    if second is None:
        st.info("No other cell of this leaderboard and data set is finished.")
        return
    try:
        found: CellComparison = ask(path, "compare_cells", cell_a=first, cell_b=second)
    except (ArtifactError, IncomparableCellsError) as error:
        st.info(escaped(str(error)))
        return
    st.caption(found.paired_over)
    _chart(found)
    _table(found)
    _questions(found)


def _candidates(done: pd.DataFrame, first: str) -> list[str]:
    """Return the cells that can be compared with a cell, those of its own group first."""
    own = done.loc[first]
    others = done[(done["leaderboard"] == own["leaderboard"]) & (done["dataset"] == own["dataset"])]
    others = others.drop(first)
    same_group = (others["llm"] == own["llm"]) & (others["prm"] == own["prm"])
    return [*others.index[same_group], *others.index[~same_group]]


def _chart(found: CellComparison) -> None:
    shown = [each for each in found.metrics if each.metric in _CHARTED]
    rows = pd.DataFrame(
        {
            "metric": [metric_title(each.metric) for each in shown],
            "difference": [each.difference for each in shown],
            "low": [each.low for each in shown],
            "high": [each.high for each in shown],
            "significance": [SIGNIFICANT if each.real else NOT_SIGNIFICANT for each in shown],
        }
    )
    draw(difference_chart(rows), compared(shown))


def _table(found: CellComparison) -> None:
    show_table(
        {
            "Metric": [escaped(metric_title(each.metric)) for each in found.metrics],
            "A": [escaped(estimate(*each.a)) for each in found.metrics],
            "B": [escaped(estimate(*each.b)) for each in found.metrics],
            _DIFFERENCE: [
                escaped(estimate(each.difference, each.low, each.high, mark="†" if each.from_zero else ""))
                for each in found.metrics
            ],
            "p": [_p_value(each.p) for each in found.metrics],
            "Holm's correction": [
                MISSING if each.pairs is None else f"{each.pairs} pairs" for each in found.metrics
            ],
            "Significant": ["yes" if each.real else "no" for each in found.metrics],
        }
    )
    distances = (
        "† Difference of the distances from 0, which is the best value of the metric. "
        if any(each.from_zero for each in found.metrics)
        else ""
    )
    st.caption(
        f"Values with 95% intervals over questions. Differences are paired. {distances}Significant: "
        f"p < {SIGNIFICANCE}. If both cells have the same LLM and PRM, p is adjusted by Holm's correction for all "
        "pairs of cells in their group on the leaderboard. A dash means that p is not adjusted."
    )


def _questions(found: CellComparison) -> None:
    st.subheader("Questions with the largest differences")
    differing = found.differing
    if differing.empty:
        st.info(
            "The cells do not differ on any question, or the database has no values for their single questions."
        )
        return
    cell_id = found.a["cell_id"]
    texts = [_excerpt(text) for text in differing["question"]]
    show_table(
        {
            "Question": [
                f"[{escaped(each)}]({link('trajectories', cell=cell_id, question=each)})"
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
