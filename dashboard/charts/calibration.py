"""Charts of calibration: reward against success, signed errors, how often quantiles hold."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.style import UNIT, Layers, hints, ink, legend

__all__ = [
    "coverage_chart",
    "reliability_curves",
    "reliability_diagram",
    "signed_errors",
    "small_reliability",
]

_SIDE = 270
_SMALL_SIDE = 170
_EXTENT = 30  # of what stands left of an axis, so that charts side by side have one size
_ASIDE = 0.018  # what stands at one place would hide each other
_ERRORS = alt.Scale(domain=[-1, 1], nice=False)


def reliability_diagram(bins: pd.DataFrame, colours: alt.Scale, shapes: alt.Scale) -> alt.VConcatChart:
    """Draw success rate against reward, square, with the diagonal of perfect calibration and a strip of counts.

    `colours` and `shapes` are those of one calibrator and one LLM.
    """
    (colour,), (shape,) = colours.range, shapes.range
    return alt.vconcat(_square(bins, colour, shape, _SIDE), _counts(bins, colour, _SIDE, 70))


def small_reliability(
    bins: pd.DataFrame, colours: alt.Scale, shapes: alt.Scale, title: str
) -> alt.VConcatChart:
    """The same, small and with a title, to stand beside others."""
    (colour,), (shape,) = colours.range, shapes.range
    square = _square(bins, colour, shape, _SMALL_SIDE).properties(title=title)
    pair = alt.vconcat(square, _counts(bins, colour, _SMALL_SIDE, 40))
    titled: alt.VConcatChart = pair.configure_title(fontSize=13, anchor="start")
    return titled


def reliability_curves(bins: pd.DataFrame, colours: alt.Scale, shapes: alt.Scale) -> alt.VConcatChart:
    """Draw several calibrators into one square.

    Parameters
    ----------
    bins : DataFrame
        The bins of all of them, with a column calibrator.
    colours, shapes : Scale
        Of the calibrators, and of the LLM.
    """
    filled = bins[bins["count"] > 0]
    colour = alt.Color("calibrator:N", scale=colours, sort=None, legend=legend(2))
    base = alt.Chart(filled).encode(
        x=alt.X("mean_reward:Q", scale=UNIT, title="Reward (mean of the bin)"),
        color=colour,
        tooltip=_bin_hints(["calibrator"]),
    )
    up = alt.Y("mean_success:Q", scale=UNIT, title="Success rate")
    layers = [
        _diagonal(),
        base.mark_rule(strokeWidth=1.5, opacity=0.5).encode(y=alt.Y("low:Q", scale=UNIT), y2="high:Q"),
        base.mark_line(strokeWidth=1.5).encode(y=up),
        base.mark_point(shape=shapes.range[0], filled=True, size=45, opacity=1).encode(y=up),
    ]
    return _fixed(alt.layer(*layers), _SIDE)


def signed_errors(bins: pd.DataFrame, means: pd.DataFrame, colours: alt.Scale) -> alt.VConcatChart:
    """Draw how many prefixes have which error (reward minus success rate), before and after calibration.

    Parameters
    ----------
    bins : DataFrame
        Columns calibrator, lower, upper, count.
    means : DataFrame
        Columns calibrator, value: the mean error of each.
    colours : Scale
    """
    across = alt.X(
        "lower:Q",
        bin="binned",
        scale=_ERRORS,
        title="Reward \N{MINUS SIGN} success rate (above 0: overestimated)",
    )
    colour = alt.Color("calibrator:N", scale=colours, sort=None, legend=legend(2))
    bars = (
        alt.Chart(bins)
        .mark_bar(opacity=0.5)
        .encode(
            x=across,
            x2="upper:Q",
            y=alt.Y("count:Q", title="Prefixes", stack=None),
            color=colour,
            tooltip=[
                alt.Tooltip("calibrator:N"),
                alt.Tooltip("lower:Q", format=".2f"),
                alt.Tooltip("upper:Q", format=".2f"),
                alt.Tooltip("count:Q", title="prefixes", format=","),
            ],
        )
    )
    zero = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=ink(), strokeDash=[4, 4]).encode(x="x:Q")
    lines = (
        alt.Chart(means)
        .mark_rule(strokeWidth=2.5)
        .encode(x="value:Q", color=colour, tooltip=hints(["calibrator"], ["value"], None))
    )
    return _fixed(alt.layer(bars, zero, lines), _SIDE)


def coverage_chart(rows: pd.DataFrame, colours: alt.Scale, shapes: alt.Scale) -> alt.VConcatChart:
    """Draw how often the success probability is at least the quantile, against how often it should be.

    Parameters
    ----------
    rows : DataFrame
        Columns calibrator, level (beta), right (1 - beta), value, low, high, n.
    colours, shapes : Scale
        Of the calibrators, and of the LLM.
    """
    place = rows["calibrator"].map({name: place for place, name in enumerate(colours.domain)})
    aside = _ASIDE * (place - (len(colours.domain) - 1) / 2)
    base = alt.Chart(rows.assign(aside=rows["right"] + aside)).encode(
        x=alt.X("aside:Q", scale=UNIT, title="Share that is right: 1 \N{MINUS SIGN} β"),
        color=alt.Color("calibrator:N", scale=colours, sort=None, legend=legend(2)),
        tooltip=hints(["calibrator"], ["level", "right", "value", "low", "high"]),
    )
    layers = [
        _diagonal(),
        base.mark_rule(strokeWidth=2).encode(
            y=alt.Y("low:Q", scale=UNIT, title="Share of prefixes measured"), y2="high:Q"
        ),
        base.mark_point(shape=shapes.range[0], filled=True, size=55, opacity=1).encode(y="value:Q"),
    ]
    return _fixed(alt.layer(*layers), _SIDE)


def _fixed(picture: Layers, side: int) -> alt.VConcatChart:
    """A square. (A page fits a single chart with its axes and legends into what it is given; not a concatenation.)"""
    return alt.vconcat(picture.properties(width=side, height=side))


def _diagonal() -> alt.Chart:
    ends = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})
    line = alt.Chart(ends).mark_line(color=ink(), strokeDash=[4, 4], strokeWidth=1)
    drawn: alt.Chart = line.encode(x=alt.X("x:Q", scale=UNIT), y=alt.Y("y:Q", scale=UNIT))
    return drawn


def _square(bins: pd.DataFrame, colour: str, shape: str, side: int) -> Layers:
    filled = bins[bins["count"] > 0]
    across = alt.X("mean_reward:Q", scale=UNIT, title="Reward (mean of the bin)")
    up = alt.Y("mean_success:Q", scale=UNIT, title="Success rate", axis=alt.Axis(minExtent=_EXTENT))
    base = alt.Chart(filled).encode(x=across, tooltip=_bin_hints([]))
    return alt.layer(
        _diagonal(),
        base.mark_line(color=colour, strokeWidth=1.5, opacity=0.6).encode(y=up),
        base.mark_rule(color=colour, strokeWidth=2).encode(y=alt.Y("low:Q", scale=UNIT), y2="high:Q"),
        base.mark_point(color=colour, shape=shape, filled=True, size=70, opacity=1).encode(y=up),
    ).properties(width=side, height=side)


def _counts(bins: pd.DataFrame, colour: str, width: int, height: int) -> alt.Chart:
    bars = alt.Chart(bins).mark_bar(color=colour, opacity=0.75)
    drawn: alt.Chart = bars.encode(
        x=alt.X("lower:Q", bin="binned", scale=UNIT, title="Reward (edges of the bins)"),
        x2="upper:Q",
        y=alt.Y("count:Q", title="Prefixes", axis=alt.Axis(tickCount=3, minExtent=_EXTENT)),
        tooltip=[alt.Tooltip("count:Q", title="prefixes", format=",")],
    ).properties(width=width, height=height)
    return drawn


def _bin_hints(names: list[str]) -> list[Any]:
    return [
        *hints(names, ["mean_reward", "mean_success", "low", "high"], None),
        alt.Tooltip("count:Q", title="prefixes", format=","),
    ]
