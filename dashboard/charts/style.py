"""The style of all charts: each calibrator has one colour and each LLM one shape, the same on every page.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

__all__ = [
    "GREY",
    "UNIT",
    "Layers",
    "colour_scale",
    "diagonal",
    "draw",
    "ink",
    "legend",
    "shape_scale",
    "tooltips",
    "zero_line",
]

Layers = alt.LayerChart | alt.FacetChart
AnyChart = Layers | alt.VConcatChart

UNIT = alt.Scale(domain=[0, 1], nice=False)
"""The scale of rewards, success rates and accuracies, from 0 to 1."""

GREY = "#7F8794"
"""A colour for secondary marks. It is readable on light and on dark pages."""

_PALETTE = ("#5F6B7A", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
_GREY_ON_DARK = "#9AA5B5"
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
_DASHES = [4, 4]


def ink() -> str:
    """Return the colour of guide lines and of marks without a calibrator: dark on a light page, light on a dark one."""
    return "#E3E5EA" if _dark() else "#31333F"


def _dark() -> bool:
    return bool(st.context.theme.type == "dark")


def colour_scale(grid: Sequence[str], used: Collection[str]) -> alt.Scale:
    """Return the colours of the calibrators in a chart.

    Parameters
    ----------
    grid : sequence of str
        All calibrators, in the order of the grid. The position of a calibrator decides its colour.
    used : collection of str
        The series in the chart. A series that is no calibrator of the grid gets the colour of :func:`ink`.
    """
    known = [name for name in grid if name in used]
    others = sorted(set(used) - set(known))
    palette = (_GREY_ON_DARK, *_PALETTE[1:]) if _dark() else _PALETTE
    colours = [palette[list(grid).index(name) % len(palette)] for name in known]
    return alt.Scale(domain=[*known, *others], range=[*colours, *[ink()] * len(others)])


def shape_scale(grid: Sequence[str], used: Collection[str]) -> alt.Scale:
    """Return the shapes of the LLMs in a chart. The position of an LLM in the grid decides its shape."""
    known = [name for name in grid if name in used]
    return alt.Scale(domain=known, range=[_SHAPES[list(grid).index(name) % len(_SHAPES)] for name in known])


def legend(columns: int = 2, names: Sequence[str] | None = None) -> alt.Legend:
    """Return a legend above a chart. It lists all series, or only those in `names`."""
    some = alt.Undefined if names is None else list(names)
    return alt.Legend(orient="top", columns=columns, title=None, labelLimit=240, symbolOpacity=1, values=some)


def tooltips(names: Sequence[str], numbers: Sequence[str], questions: str | None = "n") -> list[Any]:
    """Return the tooltips of a mark: columns with names, columns with numbers, and the column with the questions."""
    shown = [alt.Tooltip(f"{name}:N") for name in names]
    shown += [alt.Tooltip(f"{name}:Q", format=".4f") for name in numbers]
    if questions is not None:
        shown.append(alt.Tooltip(f"{questions}:Q", title="questions", format=","))
    return shown


def zero_line() -> alt.Chart:
    """Return a dashed vertical line at 0."""
    line = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=ink(), strokeDash=_DASHES)
    drawn: alt.Chart = line.encode(x="x:Q")
    return drawn


def diagonal() -> alt.Chart:
    """Return a dashed diagonal from (0, 0) to (1, 1)."""
    ends = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})
    line = alt.Chart(ends).mark_line(color=ink(), strokeDash=_DASHES, strokeWidth=1)
    drawn: alt.Chart = line.encode(x=alt.X("x:Q", scale=UNIT), y=alt.Y("y:Q", scale=UNIT))
    return drawn


def draw(chart: AnyChart, description: str, *, wide: bool = True) -> None:
    """Show a chart, with its labels in the text colour of the page.

    Parameters
    ----------
    chart : Chart
        Any chart of Altair.
    description : str
        The text that a screen reader reads.
    wide : bool
        Whether to stretch the chart to the width of its container. Otherwise it keeps its own size.
    """
    coloured = chart.configure_axis(labelColor=ink(), titleColor=ink()).configure_legend(labelColor=ink())
    st.altair_chart(coloured, width="stretch" if wide else "content", alt=description)
