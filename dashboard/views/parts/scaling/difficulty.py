"""Accuracy and samples by difficulty level on page Scaling."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from prmcal.dashboard.charts.curves import difficulty_points, levels_of, selected
from prmcal.dashboard.charts.findings import draw, hardest
from prmcal.dashboard.charts.scaling import difficulty_chart
from prmcal.dashboard.controls.selection import GridNames, grid_names
from prmcal.dashboard.controls.sliders import DEFAULT_TARGET
from prmcal.dashboard.data import ask, compute
from prmcal.dashboard.formats import escaped, estimates, numbers
from prmcal.dashboard.views.parts.scaling.equal_cost import choose_selection, signals_of
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.charts import series_of
from prmcal.db.queries.curves import ExactCurves

__all__ = ["show_difficulty"]


def show_difficulty(
    path: Path, grid: GridNames, group: dict[str, str], pool: ExactCurves, row: DeltaGenerator
) -> None:
    """Show accuracy and samples for the questions of each difficulty level."""
    target, level = choose_selection(pool, row)
    adaptive, fixed = compute(path, _tables, group=group)
    if adaptive.empty:
        st.info("The questions of this data set have no difficulty levels.")
        return
    series = series_of(grid.calibrator, {*adaptive["series"], *fixed["series"]})
    first = selected(adaptive, pool, DEFAULT_TARGET, levels_of(pool)[0])
    left, right = st.columns(2)
    with left:
        draw(
            difficulty_chart(adaptive, fixed, "accuracy", "Accuracy", series, signals_of(pool)),
            hardest(first, "accuracy", "accuracy"),
        )
    with right:
        title = "Mean samples per question"
        draw(
            difficulty_chart(adaptive, None, "cost", title, series, signals_of(pool)),
            hardest(first, "cost", "mean samples"),
        )
    st.caption(
        "Solid lines: best-of-n + IAS with the selected C and β. Dashed lines: best-of-n with a fixed n. Vertical "
        "lines: 95% intervals over the questions of a difficulty level."
    )
    with st.expander("Numbers"):
        shown = pd.concat([fixed, selected(adaptive, pool, target, level)])
        shown = shown.sort_values("question_level", kind="stable")
        show_table(
            {
                "Difficulty": [str(each) for each in shown["question_level"]],
                "Strategy": [escaped(name) for name in shown["series"]],
                "Samples": numbers(shown["cost"], 2),
                "Accuracy": estimates(shown[["accuracy", "accuracy_low", "accuracy_high"]]),
                "Questions": [str(each) for each in shown["n"]],
            }
        )


def _tables(path: Path, group: dict[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    pool: ExactCurves = ask(path, "exact_curves", **group)
    return difficulty_points(pool, grid_names(path).calibrator)
