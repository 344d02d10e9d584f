"""Charts of values with their 95% intervals, one line for each value."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.style import GREY, Layers, ink, legend, tooltips, zero_line

__all__ = ["NOT_SIGNIFICANT", "SIGNIFICANT", "difference_chart", "interval_chart"]

SIGNIFICANT, NOT_SIGNIFICANT = "significant", "not significant"
"""The two values of the column `significance` of :func:`difference_chart`."""

_LINE, _WIDE_LINE, _WIDEST_LINE = 13, 20, 24  # pixels
_MARGIN, _LEAST_MARGIN = 0.03, 0.005  # the first is a share of the span of an axis
_DIGITS = 4


def interval_chart(
    rows: pd.DataFrame, title: str, colours: alt.Scale, shapes: alt.Scale, *, zero: bool
) -> Layers:
    """Draw values with their 95% intervals, one line each, below the names of their groups.

    Parameters
    ----------
    rows : DataFrame
        Columns group (the heading above the lines; "" for none), llm, cell (the label of the line), series (it decides
        the colour), value, low, high, n. The order of the rows is the order of the lines.
    title : str
        The title of the axis.
    colours, shapes : Scale
        The colours of the series and the shapes of the LLMs.
    zero : bool
        Whether to draw a line at 0.
    """
    placed, lines = _with_lines(rows)
    headings = [name for name, heading in lines if heading]
    axis = alt.Axis(
        labelExpr=f"slice(datum.value, {_DIGITS})",
        labelFontSize=11,
        labelFontWeight=alt.condition(
            alt.FieldOneOfPredicate("value", headings), alt.value("bold"), alt.value("normal")
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
        tooltip=tooltips(["group", "cell"], ["value", "low", "high"]),
    )
    x = alt.X(
        "value:Q",
        title=f"{title} (95% interval)",
        scale=alt.Scale(domain=_domain(rows, zero), nice=False),
        axis=alt.Axis(tickCount=5, orient="top"),  # the top of a tall chart is what a reader sees first
    )
    layers: list[Any] = [
        base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q").transform_calculate(value="datum.low"),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            x=x, shape=alt.Shape("llm:N", scale=shapes, sort=None, legend=None)
        ),
    ]
    if zero:
        layers.insert(0, zero_line())
    return alt.layer(*layers).properties(height=alt.Step(_LINE if headings else _WIDE_LINE))


def _with_lines(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[str, bool]]]:
    """Add a column `line` with unique names, which begin with a number. Also return all lines: name, is a heading."""
    lines: list[tuple[str, bool]] = []
    names: dict[Any, str] = {}
    for group, members in rows.groupby("group", sort=False):
        if group:
            lines.append((f"{len(lines):0{_DIGITS}}{group}", True))
        for index, cell in members["cell"].items():
            names[index] = f"{len(lines):0{_DIGITS}}{cell}"
            lines.append((names[index], False))
    return rows.assign(line=pd.Series(names)), lines


def _domain(rows: pd.DataFrame, zero: bool) -> list[float]:
    """Return the domain of the axis: all intervals and a margin, which crosses 0 or 1 only if a value does."""
    ends = rows[["value", "low", "high"]]
    low, high = float(ends.min().min()), float(ends.max().max())
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = max(_MARGIN * (high - low), _LEAST_MARGIN)
    return [
        max(low - margin, 0.0) if low >= 0 else low - margin,
        min(high + margin, 1.0) if high <= 1 else high + margin,
    ]


def difference_chart(rows: pd.DataFrame) -> Layers:
    """Draw differences between two cells with their 95% intervals, one line for each metric, and a line at 0.

    Parameters
    ----------
    rows : DataFrame
        Columns metric, difference, low, high and significance (:data:`SIGNIFICANT` or :data:`NOT_SIGNIFICANT`).
    """
    shades = alt.Scale(domain=[SIGNIFICANT, NOT_SIGNIFICANT], range=[ink(), GREY])
    base = alt.Chart(rows).encode(
        y=alt.Y("metric:N", sort=None, title=None, axis=alt.Axis(labelLimit=160)),
        color=alt.Color("significance:N", scale=shades, sort=None, legend=legend(lines=False)),
        tooltip=tooltips(["metric", "significance"], ["difference", "low", "high"], None),
    )
    x = alt.X("difference:Q", title="A \N{MINUS SIGN} B (95% interval)", axis=alt.Axis(tickCount=6))
    layers = [
        zero_line(),
        base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q").transform_calculate(difference="datum.low"),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=x),
    ]
    return alt.layer(*layers).properties(height=alt.Step(_WIDEST_LINE))
