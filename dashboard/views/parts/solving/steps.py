"""The steps of one trajectory on page "Try it": a chart of their rewards, and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.findings import draw, stepwise
from prmcal.dashboard.charts.trajectory import reward_table, rewards_chart
from prmcal.dashboard.controls.selection import grid_names
from prmcal.dashboard.formats import escaped, estimate, integer, number, numbers, with_formulas
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.charts import GREY, INK, colour_scale, shape_scale

__all__ = ["Style", "show_steps", "style_of"]

_HEIGHT = 300
_ANSWER = "*final answer*"


class Style(NamedTuple):
    """How the rewards of this calibrator and this LLM are shown.

    Attributes
    ----------
    colours : sequence of 3 str
        As on every page.
    shape : str
    band : str
        A sentence that says what the band is; empty if there is none.
    """

    colours: Sequence[str]
    shape: str
    band: str


def style_of(path: Path, serves: Mapping[str, Any]) -> Style:
    """Return the colours and the shape that the calibrator and the LLM have on every page."""
    grid = grid_names(path)
    colours = colour_scale(grid.calibrator, [serves["calibrator"]]).range
    shapes = shape_scale(grid.llm, [serves["llm"]]).range
    return Style((GREY, colours[0], INK), next(iter(shapes), "circle"), _band(serves["levels"]))


def show_steps(steps: Sequence[Mapping[str, Any]], style: Style) -> None:
    """Show the bare question and the steps of a trajectory, as :meth:`Solving.along` returns them."""
    table = reward_table(steps)
    draw(rewards_chart(table, style.colours, style.shape).properties(height=_HEIGHT), stepwise(table))
    if style.band:
        st.caption(style.band)
    rows = table.to_dict("records")
    show_table(
        {
            "Step": [integer(step["step"]) for step in steps],
            "Text": [with_formulas(step["text"]) if step["step"] else "*Question only*" for step in steps],
            "Calibrated reward": [
                _ANSWER if step["terminal"] else _calibrated(row)
                for step, row in zip(steps, rows, strict=True)
            ],
            "PRM reward": numbers(table["reward"]),
        }
    )


def _calibrated(row: Mapping[str, Any]) -> str:
    if pd.isna(row["calibrated"]):
        return "too long for the PRM"
    if pd.isna(row["band_low"]):
        return number(row["calibrated"])
    return escaped(estimate(row["calibrated"], row["band_low"], row["band_high"]))


def _band(levels: Sequence[float]) -> str:
    if len(levels) < 2:
        return ""
    return f"Band and brackets: from the quantile of level {levels[0]:g} to that of level {levels[-1]:g}."
