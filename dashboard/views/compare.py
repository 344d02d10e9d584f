"""The page that compares two cells, paired: by how much they differ, and on which questions most."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts import style as charts
from prmcal.dashboard.controls.address import bound, link
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import amount, estimate, in_lines, number, plain
from prmcal.db.queries.compare import CellComparison, MetricComparison
from prmcal.db.queries.leaderboard import METRICS, SIGNIFICANCE
from prmcal.errors import ArtifactError, IncomparableCellsError

__all__ = ["show"]

_TEXT_START, _WORDS = 90, 9
# Of the chart: what has the size of the others.
_CHARTED = {name for name, metric in METRICS.items() if metric.better} | {"budget_ratio"}


def show(path: Path) -> None:
    """Show two cells side by side."""
    st.title("Compare")
    cells = ask(path, "cells")
    done = cells[cells["status"] == "done"].set_index("cell_id")
    if len(done) < 2:
        st.info("There are no two finished cells to compare yet.")
        return
    first = st.selectbox("A", list(done.index), **bound("a"))
    second = st.selectbox("B", _rivals(done, first), **bound("b"))
    if second is None:
        st.info("No other cell of this data set is finished.")
        return
    try:
        found: CellComparison = ask(path, "compare", cell_a=first, cell_b=second)
    except (ArtifactError, IncomparableCellsError) as error:
        st.info(plain(str(error)))
        return
    st.caption(found.paired_over)
    _chart(found)
    _table(found)
    _questions(found)


def _rivals(done: pd.DataFrame, first: str) -> list[str]:
    """What a cell can be compared with, those first that it competes with."""
    own = done.loc[first]
    others = done[(done["leaderboard"] == own["leaderboard"]) & (done["dataset"] == own["dataset"])]
    others = others.drop(first)
    competes = (others["llm"] == own["llm"]) & (others["prm"] == own["prm"])
    return [*others.index[competes], *others.index[~competes]]


def _chart(found: CellComparison) -> None:
    shown = [each for each in found.metrics if each.metric in _CHARTED]
    rows = pd.DataFrame(
        {
            "metric": [_title(each) for each in shown],
            "difference": [each.difference for each in shown],
            "low": [each.low for each in shown],
            "high": [each.high for each in shown],
            "real": ["real" if each.real else "may be chance" for each in shown],
        }
    )
    charts.draw(charts.differences(rows), "Differences with 95% intervals, as in the table below")


def _table(found: CellComparison) -> None:
    shown = {
        "Metric": [_title(each) for each in found.metrics],
        "A": [plain(estimate(*each.a)) for each in found.metrics],
        "B": [plain(estimate(*each.b)) for each in found.metrics],
        "A \N{MINUS SIGN} B": [
            plain(estimate(each.difference, each.low, each.high, mark="†" if each.from_zero else ""))
            for each in found.metrics
        ],
        "p": [_p_value(each.p) for each in found.metrics],
        "Adjusted for": [
            number(None) if each.pairs is None else f"{each.pairs} pairs" for each in found.metrics
        ],
        "Real": ["yes" if each.real else "no" for each in found.metrics],
    }
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)
    from_zero = (
        "† of the distances from 0, the best value. " if any(e.from_zero for e in found.metrics) else ""
    )
    st.caption(
        f"Values with 95% intervals by bootstrap over questions, paired for the differences. {from_zero}Real: "
        f"p < {SIGNIFICANCE}, after Holm's correction where the two compete on a leaderboard; elsewhere p is that of "
        "each metric alone."
    )


def _questions(found: CellComparison) -> None:
    st.subheader("Where they differ most")
    differing = found.differing
    if differing.empty:
        st.info(
            "They do not differ on any question, or the database does not hold the values of single ones."
        )
        return
    shown = {
        "Question": [
            f"[{plain(row.question_id)}]({link('trajectories', cell=found.a['cell_id'], question=row.question_id)})"
            for row in differing.itertuples()
        ],
        "Level": [amount(level) for level in differing["question_level"]],
        "A": [number(value) for value in differing["value_a"]],
        "B": [number(value) for value in differing["value_b"]],
        "A \N{MINUS SIGN} B": [number(value) for value in differing["difference"]],
        "Text": [in_lines(plain(_start(text)), _WORDS) for text in differing["question"]],
    }
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)
    st.caption("Squared error, mean over prefixes." if found.prefixes else "Accuracy.")


def _title(each: MetricComparison) -> str:
    return METRICS[each.metric].title if each.metric in METRICS else plain(each.metric)


def _p_value(value: float) -> str:
    if value != value:
        return number(None)
    return plain("< 0.001") if value < 0.001 else f"{value:.2g}"


def _start(text: str | None) -> str:
    flat = " ".join((text or "").split())
    return flat if len(flat) <= _TEXT_START else f"{flat[: _TEXT_START - 1]}…"
