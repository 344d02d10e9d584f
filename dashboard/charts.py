"""Charts. Colours tell calibrators apart, also for colour-blind readers (the palette of Okabe and Ito)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

__all__ = ["colour_scale", "estimates", "reliability_diagram", "signed_error_histogram"]

_PALETTE = ("#5F6B7A", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
_NO_CALIBRATOR = "#000000"
_INK, _PAPER_GREY = "#31333F", "#D9DBE1"
Layers = alt.LayerChart | alt.FacetChart

_UNIT = alt.Scale(domain=[0, 1], nice=False)
_SIDE = 270


def colour_scale(calibrators: Sequence[str], baselines: Sequence[str] = ()) -> alt.Scale:
    """Give each calibrator of the grid its colour, the same on every page; baselines without one are black."""
    colours = [_PALETTE[place % len(_PALETTE)] for place in range(len(calibrators))]
    return alt.Scale(domain=[*calibrators, *baselines], range=[*colours, *[_NO_CALIBRATOR] * len(baselines)])


def estimates(rows: pd.DataFrame, title: str, scale: alt.Scale, *, zero: bool) -> Layers:
    """Draw values with their 95% intervals, one line per cell, grouped by data set and LLM.

    Parameters
    ----------
    rows : DataFrame
        Columns group, cell (a label unique within its group), series (its colour), value, low, high, n, in order.
    title : str
        Of the axis.
    scale : Scale
        Colours of the series.
    zero : bool
        Draw a line at zero.
    """
    group = alt.Y(
        "group:N",
        sort=None,
        title=None,
        scale=alt.Scale(paddingInner=0.3),
        axis=alt.Axis(labelLimit=220, ticks=False, domain=False),
    )
    offset = alt.YOffset("cell:N", sort=None)
    axis = alt.X("value:Q", title=f"{title} (95% interval)", scale=alt.Scale(zero=False, padding=12))
    legend = alt.Legend(orient="top", columns=2)
    colour = alt.Color("series:N", scale=scale, sort=None, title=None, legend=legend)
    hints: list[Any] = [alt.Tooltip(f"{name}:N") for name in ("group", "cell")]
    hints += [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high")]
    hints.append(alt.Tooltip("n:Q", title="questions"))
    base = alt.Chart(rows).encode(y=group, yOffset=offset, color=colour, tooltip=hints)
    layers: list[Any] = [
        base.mark_rule(strokeWidth=2).encode(x=axis, x2="high:Q").transform_calculate(value="datum.low"),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x=axis, shape=alt.Shape("series:N", sort=None, legend=legend, title=None)
        ),
    ]
    if zero:
        line = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=_INK, strokeDash=[4, 4]).encode(x="x:Q")
        layers.insert(0, line)
    height = 60 + 18 * len(rows) + 14 * rows["group"].nunique()
    return alt.layer(*layers).properties(height=height)


def reliability_diagram(bins: pd.DataFrame, colour: str) -> alt.VConcatChart:
    """Draw success rate against reward, square, with the diagonal of perfect calibration and a strip of counts."""
    filled = bins[bins["count"] > 0]
    diagonal = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})
    across = alt.X("mean_reward:Q", scale=_UNIT, title="Reward (mean of the bin)")
    up = alt.Y("mean_success:Q", scale=_UNIT, title="Success rate")
    hints = [alt.Tooltip("count:Q", title="prefixes", format=",")]
    hints += [
        alt.Tooltip(f"{name}:Q", format=".3f") for name in ("mean_reward", "mean_success", "low", "high")
    ]
    base = alt.Chart(filled).encode(x=across, tooltip=hints)
    square = alt.layer(
        alt.Chart(diagonal).mark_line(color=_INK, strokeDash=[4, 4], strokeWidth=1).encode(x="x:Q", y="y:Q"),
        base.mark_line(color=colour, strokeWidth=1.5, opacity=0.6).encode(y=up),
        base.mark_rule(color=colour, strokeWidth=2).encode(y=alt.Y("low:Q", scale=_UNIT), y2="high:Q"),
        base.mark_point(color=colour, filled=True, size=70, opacity=1).encode(y=up),
    ).properties(width=_SIDE, height=_SIDE)
    counts = (
        alt.Chart(bins)
        .mark_bar(color=colour, opacity=0.75, stroke="white")
        .encode(
            x=alt.X("lower:Q", bin="binned", scale=_UNIT, title="Reward (edges of the bins)"),
            x2="upper:Q",
            y=alt.Y("count:Q", title="Prefixes", axis=alt.Axis(tickCount=3)),
            tooltip=[alt.Tooltip("count:Q", title="prefixes", format=",")],
        )
        .properties(width=_SIDE, height=70)
    )
    return alt.vconcat(square, counts)


def signed_error_histogram(bins: pd.DataFrame, colour: str, mean: float | None) -> alt.VConcatChart:
    """Draw how many prefixes have which error (reward minus success rate), with its mean."""
    bars = (
        alt.Chart(bins)
        .mark_bar(color=colour, opacity=0.75, stroke="white")
        .encode(
            x=alt.X(
                "lower:Q",
                bin="binned",
                scale=alt.Scale(domain=[-1, 1], nice=False),
                title="Reward \N{MINUS SIGN} success rate (above 0: overestimated)",
            ),
            x2="upper:Q",
            y=alt.Y("count:Q", title="Prefixes"),
            tooltip=[
                alt.Tooltip("lower:Q", format=".2f"),
                alt.Tooltip("upper:Q", format=".2f"),
                alt.Tooltip("count:Q", title="prefixes", format=","),
            ],
        )
    )
    lines = pd.DataFrame(
        {"at": [0.0] if mean is None else [0.0, mean], "line": ["zero", "mean"][: 1 + (mean is not None)]}
    )
    rule = (
        alt.Chart(lines)
        .mark_rule(color=_INK, strokeWidth=1.5)
        .encode(
            x="at:Q",
            strokeDash=alt.StrokeDash(
                "line:N",
                title=None,
                scale=alt.Scale(domain=["zero", "mean"], range=[[4, 4], [1, 0]]),
                legend=alt.Legend(orient="top"),
            ),
        )
    )
    return alt.vconcat(alt.layer(bars, rule).properties(width=_SIDE, height=_SIDE))
