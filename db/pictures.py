"""Two pictures: reliability before and after, and values with their intervals, one line each.

Both are blue and grey, on a page, in an export, in a report and in a document. Their style comes from
:mod:`prmcal.db.charts`.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from prmcal.db import charts

_HIGHEST_BAR = 0.12  # of the number of scores in a bin, in units of the vertical axis
_POINT = 45  # square pixels
_AXIS = alt.Axis(tickCount=5, format=".1f")


def points_of(bins: pd.DataFrame) -> pd.DataFrame:
    """Return the points of :func:`reliability` from bins, which have the calibrator in the column `calibrator`."""
    names = {"calibrator": "series", "mean_reward": "score", "mean_success": "right", "count": "n"}
    return bins[bins["count"] > 0].rename(columns={**names, "low": "right_low", "high": "right_high"})


def reliability(
    points: pd.DataFrame,
    series: charts.Series,
    shown_legend: alt.Legend | None = None,
    *,
    titles: tuple[str, str] = ("The score says", "It is right"),
    tooltip: Sequence[Any] = (),
) -> charts.Layers:
    """Draw how often scores are right, with the diagonal of calibrated scores.

    `points` has the columns series, score, right, right_low and right_high, a row for each bin of a series. If it has
    the number n of scores in each bin, bars at the bottom show it. The titles are for both axes.
    """
    base = alt.Chart(points).encode(x=alt.X("score:Q", scale=charts.UNIT, title=titles[0], axis=_AXIS))
    y = alt.Y("right:Q", scale=charts.UNIT, title=titles[1], axis=_AXIS)
    layers = charts.curves(base, y, series, shown_legend, rule=0.6, point=_POINT, tooltip=tooltip)
    bars = []
    if "n" in points:
        highest = points.groupby("series")["n"].transform("max")
        heights = alt.Chart(points.assign(bar=_HIGHEST_BAR * points["n"] / highest, foot=0.0))
        foot = alt.Y("foot:Q", scale=charts.UNIT, title=titles[1], axis=_AXIS)
        ends = heights.encode(x=base.encoding.x, y=foot, y2="bar:Q", color=series.colour("series", shown_legend))
        bars.append(ends.mark_rule(strokeWidth=5, opacity=0.35))
    return alt.layer(charts.diagonal(), *bars, *layers)


def forest(
    base: alt.Chart,
    label: str,
    value: alt.X,
    series: charts.Series,
    shown_legend: alt.Legend | None,
    *,
    by: str,
    order: Sequence[str] | None = None,
    axis: alt.Axis | None = None,
    size: float = 60,
) -> list[alt.Chart]:
    """Return the layers of values with their 95% intervals, one line each, by default in the order of the rows.

    `base` has the data: the column `label` names the line, `by` the series that decides colour and shape, and low and
    high are the ends of the interval of `value`.
    """
    axis = axis or alt.Axis(labelLimit=300, labelOverlap=False)
    axis["ticks"] = axis["domain"] = axis["grid"] = False
    base = base.encode(y=alt.Y(f"{label}:N", sort=order, title=None, axis=axis))
    base = base.encode(color=series.colour(by, shown_legend))
    return charts.intervals(base, value, size=size, shape=series.shape(by, shown_legend))
