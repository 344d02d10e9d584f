"""The visual language of all charts: colours tell calibrators apart, shapes tell LLMs apart, the same on every page.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

__all__ = [
    "UNIT",
    "Layers",
    "colour_scale",
    "differences",
    "draw",
    "estimates",
    "hints",
    "ink",
    "legend",
    "shape_scale",
]

Layers = alt.LayerChart | alt.FacetChart
AnyChart = Layers | alt.VConcatChart

UNIT = alt.Scale(domain=[0, 1], nice=False)
"""Of rewards and success rates, which are compared on squares."""

_PALETTE = ("#5F6B7A", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
_GREY_ON_DARK = "#9AA5B5"
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
_LINE, _WIDE_LINE = 13, 20  # pixels; where there are many lines, and where there are few
_ROOM, _DIGITS = 0.03, 4


def ink() -> str:
    """The colour of guides and of what has no calibrator: dark on a light page, light on a dark one."""
    return "#E3E5EA" if _dark() else "#31333F"


def _dark() -> bool:
    return bool(st.context.theme.type == "dark")


def colour_scale(grid: Sequence[str], used: Collection[str]) -> alt.Scale:
    """The colours of what a chart shows: each calibrator of the grid has its own, all else that of ink."""
    known = [name for name in grid if name in used]
    others = sorted(set(used) - set(known))
    palette = (_GREY_ON_DARK, *_PALETTE[1:]) if _dark() else _PALETTE
    colours = [palette[list(grid).index(name) % len(palette)] for name in known]
    return alt.Scale(domain=[*known, *others], range=[*colours, *[ink()] * len(others)])


def shape_scale(grid: Sequence[str], used: Collection[str]) -> alt.Scale:
    """The shapes of what a chart shows: each LLM of the grid has its own."""
    known = [name for name in grid if name in used]
    return alt.Scale(domain=known, range=[_SHAPES[list(grid).index(name) % len(_SHAPES)] for name in known])


def legend(columns: int = 2, names: Sequence[str] | None = None) -> alt.Legend:
    """A legend above a chart, of so many columns; of all names, or of some only."""
    some = alt.Undefined if names is None else list(names)
    return alt.Legend(orient="top", columns=columns, title=None, labelLimit=240, symbolOpacity=1, values=some)


def hints(names: Sequence[str], numbers: Sequence[str], questions: str | None = "n") -> list[Any]:
    """What a reader sees when pointing at a mark: names, numbers, and on how many questions they rest."""
    shown = [alt.Tooltip(f"{name}:N") for name in names]
    shown += [alt.Tooltip(f"{name}:Q", format=".4f") for name in numbers]
    return (
        shown if questions is None else [*shown, alt.Tooltip(f"{questions}:Q", title="questions", format=",")]
    )


def draw(picture: AnyChart, told: str, *, wide: bool = True) -> None:
    """Show a chart, its words in the colour of the page's text.

    Parameters
    ----------
    picture : Chart
        Any chart of Altair.
    told : str
        What a reader hears who cannot see it.
    wide : bool
        Fit it into what is given, or keep its own size.
    """
    coloured = picture.configure_axis(labelColor=ink(), titleColor=ink()).configure_legend(labelColor=ink())
    st.altair_chart(coloured, width="stretch" if wide else "content", alt=told)


def estimates(rows: pd.DataFrame, title: str, colours: alt.Scale, shapes: alt.Scale, *, zero: bool) -> Layers:
    """Draw values with their 95% intervals, a line each, those that compete below their common name.

    Parameters
    ----------
    rows : DataFrame
        Columns group (what competes; "" for a group that needs no name), llm, cell (what its line is called), series
        (its colour), value, low, high, n, in order.
    title : str
        Of the axis.
    colours, shapes : Scale
        Of the series and of the LLMs.
    zero : bool
        Draw a line at zero.
    """
    placed, lines = _lined(rows)
    label = f"slice(datum.value, {_DIGITS})"
    heads = [name for name, head in lines if head]
    axis = alt.Axis(
        labelExpr=label,
        labelFontSize=11,
        labelFontWeight=alt.condition(
            alt.FieldOneOfPredicate("value", heads), alt.value("bold"), alt.value("normal")
        ),
        labelLimit=200,
        labelOverlap=False,
        labelFlush=False,
        ticks=False,
        domain=False,
        grid=False,
    )
    base = alt.Chart(placed).encode(
        y=alt.Y("line:O", scale=alt.Scale(domain=[name for name, _ in lines]), title=None, axis=axis),
        color=alt.Color("series:N", scale=colours, sort=None, legend=None),
        tooltip=hints(["group", "cell"], ["value", "low", "high"]),
    )
    across = alt.X(
        "value:Q",
        title=f"{title} (95% interval)",
        scale=alt.Scale(domain=_span(rows, zero), nice=False),
        axis=alt.Axis(tickCount=5, orient="top"),  # where a reader of a tall chart begins
    )
    layers: list[Any] = [
        base.mark_rule(strokeWidth=2).encode(x=across, x2="high:Q").transform_calculate(value="datum.low"),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            x=across, shape=alt.Shape("llm:N", scale=shapes, sort=None, legend=None)
        ),
    ]
    if zero:
        line = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=ink(), strokeDash=[4, 4])
        layers.insert(0, line.encode(x="x:Q"))
    return alt.layer(*layers).properties(height=alt.Step(_LINE if heads else _WIDE_LINE))


def _lined(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[str, bool]]]:
    """The rows with the names of their lines, which begin with a number; and all lines, told headings from others."""
    lines: list[tuple[str, bool]] = []
    names: dict[Any, str] = {}
    for group, members in rows.groupby("group", sort=False):
        if group:
            lines.append((f"{len(lines):0{_DIGITS}}{group}", True))
        for index, cell in members["cell"].items():
            names[index] = f"{len(lines):0{_DIGITS}}{cell}"
            lines.append((names[index], False))
    return rows.assign(line=pd.Series(names)), lines


def _span(rows: pd.DataFrame, zero: bool) -> list[float]:
    """From the lowest to the highest end of an interval, not beyond 0 and 1 where no value is."""
    ends = rows[["value", "low", "high"]]
    low, high = float(ends.min().min()), float(ends.max().max())
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = max(_ROOM * (high - low), 0.005)
    return [
        max(low - room, 0.0) if low >= 0 else low - room,
        min(high + room, 1.0) if high <= 1 else high + room,
    ]


def differences(rows: pd.DataFrame) -> Layers:
    """Draw differences with their 95% intervals, one metric a line, about a line at zero.

    `rows` has the columns metric, difference, low, high and real ("real" or "may be chance").
    """
    shades = alt.Scale(domain=["real", "may be chance"], range=[ink(), _GREY_ON_DARK])
    base = alt.Chart(rows).encode(
        y=alt.Y("metric:N", sort=None, title=None, axis=alt.Axis(labelLimit=160)),
        color=alt.Color("real:N", scale=shades, sort=None, legend=legend(2)),
        tooltip=hints(["metric", "real"], ["difference", "low", "high"], None),
    )
    axis = alt.X("difference:Q", title="A \N{MINUS SIGN} B (95% interval)", axis=alt.Axis(tickCount=6))
    zero = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=ink(), strokeDash=[4, 4]).encode(x="x:Q")
    layers = [
        zero,
        base.mark_rule(strokeWidth=2).encode(x=axis, x2="high:Q").transform_calculate(difference="datum.low"),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=axis),
    ]
    return alt.layer(*layers).properties(height=alt.Step(24))
