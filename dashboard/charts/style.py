"""The style of all charts: each calibrator has a colour, a dash and a shape, the same on every page.

The eight colours follow those of Okabe and Ito. They are moved apart so that readers with red-green blindness can
distinguish each pair, and each has a contrast of at least 3:1 with the page, light or dark. The ninth calibrator has
the colour of the first with another dash and another shape, and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

__all__ = [
    "GREY",
    "UNIT",
    "Layers",
    "Series",
    "colour_scale",
    "diagonal",
    "draw",
    "ink",
    "legend",
    "series_of",
    "shape_scale",
    "tooltips",
    "zero_line",
]

Layers = alt.LayerChart | alt.FacetChart

UNIT = alt.Scale(domain=[0, 1], nice=False)
"""The scale of rewards, success rates and accuracies, from 0 to 1."""

GREY = "#7F8794"
"""A colour for secondary marks. Its contrast is at least 3:1 on light and on dark pages."""

_ON_LIGHT = ("#5F6B7A", "#0985D1", "#A48348", "#419774", "#772241", "#982C00", "#004876", "#948B00")
_ON_DARK = ("#9AA5B5", "#249CF5", "#FBC102", "#2E9563", "#A56FB4", "#D0690A", "#8FC7FF", "#D7CA64")
_DASHES = ([1, 0], [8, 3], [2, 2], [8, 2, 2, 2])
_MARKS = ("circle", "square", "triangle-up", "diamond")
_DASH_OF_OTHERS = [4, 4]
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
_LEGEND_COLUMN, _LEGEND_SYMBOL, _LETTER, _LONGEST_LABEL = 110, 30, 6, 240  # pixels


def ink() -> str:
    """Return the colour of guide lines and of marks without a calibrator: dark on a light page, light on a dark one."""
    return "#E3E5EA" if _dark() else "#31333F"


def _dark() -> bool:
    return bool(st.context.theme.type == "dark")


@dataclass(frozen=True)
class Series:
    """The style of the series in a chart: calibrators, and others such as a fixed n.

    Attributes
    ----------
    names : list of str
    colours : list of str
    dashes : list of list of int
        Of lines.
    shapes : list of str
        Of points.
    """

    names: list[str]
    colours: list[str]
    dashes: list[list[int]]
    shapes: list[str]

    def colour(self, field: str, shown: alt.Legend | None) -> alt.Color:
        """Return the encoding of the colour."""
        return alt.Color(f"{field}:N", scale=self._scale(self.colours), sort=None, legend=shown)

    def outline(self, field: str, shown: alt.Legend | None) -> alt.Stroke:
        """Return the encoding of the outline of a bar."""
        return alt.Stroke(f"{field}:N", scale=self._scale(self.colours), sort=None, legend=shown)

    def dash(self, field: str, shown: alt.Legend | None) -> alt.StrokeDash:
        """Return the encoding of the dash of a line. With the same legend, both are shown in one."""
        return alt.StrokeDash(f"{field}:N", scale=self._scale(self.dashes), sort=None, legend=shown)

    def shape(self, field: str, shown: alt.Legend | None) -> alt.Shape | alt.ShapeValue:
        """Return the encoding of the shape of a point. If all are equal, the legend shows none."""
        if len(set(self.shapes)) == 1:
            return alt.ShapeValue(self.shapes[0])
        return alt.Shape(f"{field}:N", scale=self._scale(self.shapes), sort=None, legend=shown)

    def _scale(self, values: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=self.names, range=list(values))


def series_of(grid: Sequence[str], used: Collection[str]) -> Series:
    """Return the style of the series in a chart.

    Parameters
    ----------
    grid : sequence of str
        All calibrators, in the order of the grid. The position of a calibrator decides its style. Up to 32 calibrators
        have styles of their own.
    used : collection of str
        The series in the chart. A series that is no calibrator of the grid is drawn in :func:`ink`, its lines dashed.
    """
    known = [name for name in grid if name in used]
    others = sorted(set(used) - set(known))
    palette = _ON_DARK if _dark() else _ON_LIGHT
    rounds = [divmod(list(grid).index(name), len(palette)) for name in known]
    return Series(
        [*known, *others],
        [*(palette[place] for _, place in rounds), *[ink()] * len(others)],
        [*(_DASHES[again % len(_DASHES)] for again, _ in rounds), *[_DASH_OF_OTHERS] * len(others)],
        [*(_MARKS[again % len(_MARKS)] for again, _ in rounds), *[_MARKS[0]] * len(others)],
    )


def colour_scale(grid: Sequence[str], used: Collection[str]) -> alt.Scale:
    """Return the colours of :func:`series_of`."""
    series = series_of(grid, used)
    return alt.Scale(domain=series.names, range=series.colours)


def shape_scale(grid: Sequence[str], used: Collection[str]) -> alt.Scale:
    """Return the shapes of the LLMs in a chart. The position of an LLM in the grid decides its shape."""
    known = [name for name in grid if name in used]
    return alt.Scale(domain=known, range=[_SHAPES[list(grid).index(name) % len(_SHAPES)] for name in known])


def legend(names: Sequence[str] | None = None, *, lines: bool = True) -> alt.Legend:
    """Return a legend above a chart, with as many series in a line as fit.

    Parameters
    ----------
    names : sequence of str, optional
        The series that it lists; by default all.
    lines : bool
        Whether it shows lines with their dashes. Otherwise it shows points.
    """
    symbol: dict[str, Any] = {"symbolSize": 80}
    if lines:
        symbol = {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolSize": 250}
    some = alt.Undefined if names is None else list(names)
    # Names on a merged leaderboard are longer than those of a grid.
    longest = _LEGEND_SYMBOL + _LETTER * max(map(len, names or ()), default=0)
    column = round(max(_LEGEND_COLUMN, min(longest, _LEGEND_SYMBOL + _LONGEST_LABEL)))
    columns = alt.ExprRef(f"max(1, floor(width / {column}))")
    return alt.Legend(
        orient="top",
        columns=columns,
        title=None,
        labelLimit=_LONGEST_LABEL,
        symbolOpacity=1,
        values=some,
        padding=0,
        offset=8,
        rowPadding=2,
        **symbol,
    )


def tooltips(names: Sequence[str], numbers: Sequence[str], questions: str | None = "n") -> list[Any]:
    """Return the tooltips of a mark: columns with names, columns with numbers, and the column with the questions."""
    shown = [alt.Tooltip(f"{name}:N") for name in names]
    shown += [alt.Tooltip(f"{name}:Q", format=".4f") for name in numbers]
    if questions is not None:
        shown.append(alt.Tooltip(f"{questions}:Q", title="questions", format=","))
    return shown


def zero_line() -> alt.Chart:
    """Return a dashed vertical line at 0."""
    line = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=ink(), strokeDash=_DASH_OF_OTHERS)
    drawn: alt.Chart = line.encode(x="x:Q")
    return drawn


def diagonal() -> alt.Chart:
    """Return a dashed diagonal from (0, 0) to (1, 1)."""
    ends = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})
    line = alt.Chart(ends).mark_line(color=ink(), strokeDash=_DASH_OF_OTHERS, strokeWidth=1)
    drawn: alt.Chart = line.encode(x=alt.X("x:Q", scale=UNIT), y=alt.Y("y:Q", scale=UNIT))
    return drawn


def draw(chart: alt.Chart | Layers, finding: str) -> None:
    """Show a chart as wide as its container, with its labels in the text colour of the page.

    Parameters
    ----------
    chart : Chart
        Any chart of Altair.
    finding : str
        What the chart shows, for readers who do not see it: the finding with its numbers, not the axes.
    """
    coloured = (
        chart.configure_axis(labelColor=ink(), titleColor=ink())
        .configure_legend(labelColor=ink())
        .configure_title(color=ink())
        .configure_mark(aria=False)  # the finding is read, and not hundreds of marks
    )
    st.altair_chart(coloured, width="stretch", alt=finding)
