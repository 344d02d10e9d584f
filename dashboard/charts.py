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
    "estimates",
    "hints",
    "ink",
    "legend",
    "shape_scale",
]

Layers = alt.LayerChart | alt.FacetChart

UNIT = alt.Scale(domain=[0, 1], nice=False)
"""Of rewards and success rates, which are compared on squares."""

_PALETTE = ("#5F6B7A", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
_GREY_ON_DARK = "#9AA5B5"
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
_LINE, _HEADING = 9, 22


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


def estimates(rows: pd.DataFrame, title: str, colours: alt.Scale, shapes: alt.Scale, *, zero: bool) -> Layers:
    """Draw values with their 95% intervals, those that compete below one another.

    Parameters
    ----------
    rows : DataFrame
        Columns group (what competes), llm, cell (a label unique within its group), series (its colour), note (what is
        written beside it), value, low, high, n, in order.
    title : str
        Of the axis.
    colours, shapes : Scale
        Of the series and of the LLMs.
    zero : bool
        Draw a line at zero.
    """
    sizes = rows.groupby("group").size()
    band, step = _LINE * int(sizes.max()) + 4, _LINE * int(sizes.max()) + 4 + _HEADING
    # Its name stands above each group and not beside it: names are long, and pages may be narrow.
    above = alt.Axis(
        labelAlign="left",
        labelBaseline="bottom",
        labelOffset=-band / 2 - 1,
        labelPadding=-2,
        labelLimit=320,
        ticks=False,
        domain=False,
        grid=False,
    )
    spread = alt.Scale(paddingInner=_HEADING / step, paddingOuter=_HEADING / step)
    group = alt.Y("group:N", sort=None, title=None, scale=spread, axis=above)
    axis = alt.X("value:Q", title=f"{title} (95% interval)", scale=alt.Scale(zero=False, padding=12))
    grid = [name for name, colour in zip(colours.domain, colours.range, strict=True) if colour != ink()]
    key = None if len(sizes) == len(rows) else legend(names=grid)
    base = alt.Chart(rows).encode(
        y=group,
        yOffset=alt.YOffset("cell:N", sort=None),
        color=alt.Color("series:N", scale=colours, sort=None, legend=key),
        tooltip=hints(["group", "cell"], ["value", "low", "high"]),
    )
    layers: list[Any] = [
        base.mark_rule(strokeWidth=2).encode(x=axis, x2="high:Q").transform_calculate(value="datum.low"),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            x=axis, shape=alt.Shape("llm:N", scale=shapes, sort=None, legend=None)
        ),
    ]
    middle = (rows["value"].min() + rows["value"].max()) / 2
    for left in (True, False):
        noted = base.properties(data=rows[(rows["note"] != "") & ((rows["value"] > middle) == left)])
        beside = noted.mark_text(align="right" if left else "left", dx=-6 if left else 6, fontSize=9)
        layers.append(beside.encode(x="low:Q" if left else "high:Q", text="note:N"))
    if zero:
        line = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=ink(), strokeDash=[4, 4])
        layers.insert(0, line.encode(x="x:Q"))
    return alt.layer(*layers).properties(height=alt.Step(step, **{"for": "position"}))


def differences(rows: pd.DataFrame) -> Layers:
    """Draw differences with their 95% intervals, one metric a line, about a line at zero.

    `rows` has the columns metric, difference, low, high and real ("real" or "may be chance").
    """
    shades = alt.Scale(domain=["real", "may be chance"], range=["#D55E00", _GREY_ON_DARK])
    base = alt.Chart(rows).encode(
        y=alt.Y("metric:N", sort=None, title=None, axis=alt.Axis(labelLimit=160)),
        color=alt.Color("real:N", scale=shades, sort=None, legend=legend(2)),
        tooltip=hints(["metric", "real"], ["difference", "low", "high"], None),
    )
    axis = alt.X("difference:Q", title="A \N{MINUS SIGN} B (95% interval)")
    zero = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=ink(), strokeDash=[4, 4]).encode(x="x:Q")
    layers = [
        zero,
        base.mark_rule(strokeWidth=2).encode(x=axis, x2="high:Q").transform_calculate(difference="datum.low"),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=axis),
    ]
    return alt.layer(*layers).properties(height=alt.Step(24))
