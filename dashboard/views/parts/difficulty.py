"""Accuracy and samples by difficulty level on page Scaling."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from prmcal.dashboard.charts.scaling import difficulty_chart
from prmcal.dashboard.charts.style import colour_scale, draw, shape_scale
from prmcal.dashboard.controls.selection import GridNames
from prmcal.dashboard.controls.sliders import choose_target_and_level
from prmcal.dashboard.frames.scaling import levels_of, points_by_difficulty
from prmcal.dashboard.text.formats import escaped, estimates, numbers
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.queries.exact_curves import ExactCurves

__all__ = ["show_difficulty"]


def show_difficulty(path: Path, grid: GridNames, group: dict[str, str], pool: ExactCurves) -> None:
    """Show accuracy and samples for the questions of each difficulty level."""
    target, level = choose_target_and_level(pool)
    levels = levels_of(pool, grid.calibrator, level)
    points = points_by_difficulty(pool, levels, target)
    if points.empty:
        st.info("The questions of this data set have no difficulty levels.")
        return
    adaptive = points[points["series"].isin(levels)]
    (shape,) = shape_scale(grid.llm, [group["llm"]]).range
    for container, rows, column, title in zip(
        st.columns(2),
        (points, adaptive),
        ("accuracy", "cost"),
        ("Accuracy", "Mean samples per question"),
        strict=True,
    ):
        with container:
            draw(
                difficulty_chart(
                    rows, column, title, colour_scale(grid.calibrator, set(rows["series"])), shape
                ),
                f"{title} by difficulty level; the table below has the numbers",
            )
    st.caption(
        "Solid lines: best-of-n + IAS with the selected C and β. Dashed lines: best-of-n with a fixed n. Vertical "
        "lines: 95% intervals over the questions of a difficulty level."
    )
    with st.expander("Numbers"):
        show_table(
            {
                "Difficulty": [str(each) for each in points["question_level"]],
                "Strategy": [escaped(name) for name in points["series"]],
                "Samples": numbers(points["cost"], 2),
                "Accuracy": estimates(points[["accuracy", "accuracy_low", "accuracy_high"]]),
                "Questions": [str(each) for each in points["n"]],
            }
        )
