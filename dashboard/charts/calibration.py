"""Charts of calibration: reliability diagrams, signed errors, coverage of quantiles."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.style import UNIT, Layers, Series, diagonal, legend, tooltips, zero_line

__all__ = [
    "coverage_chart",
    "prefix_histogram",
    "reliability_curves",
    "reliability_diagram",
    "signed_error_histogram",
]

_HEIGHT, _SMALL_HEIGHT, _HISTOGRAM_HEIGHT = 320, 220, 120
_AXIS_WIDTH = 30  # pixels left of an axis, so that charts above each other are aligned
_SHIFT = 0.018  # between points at the same place, which would otherwise hide each other
_ERRORS = alt.Scale(domain=[-1, 1], nice=False)


def reliability_diagram(
    bins: pd.DataFrame, colours: alt.Scale, shapes: alt.Scale, *, small: bool = False
) -> Layers:
    """Draw the success rate against the reward, with the diagonal of perfect calibration.

    Parameters
    ----------
    bins : DataFrame
        Columns lower, upper, count, mean_reward, mean_success, low, high.
    colours, shapes : Scale
        The colour of one calibrator and the shape of one LLM.
    small : bool
        Whether the chart stands beside others of its kind.
    """
    (colour,), (shape,) = colours.range, shapes.range
    filled = bins[bins["count"] > 0]
    x = alt.X("mean_reward:Q", scale=UNIT, title="Mean reward of the bin")
    y = alt.Y("mean_success:Q", scale=UNIT, title="Success rate", axis=alt.Axis(minExtent=_AXIS_WIDTH))
    base = alt.Chart(filled).encode(x=x, tooltip=_bin_tooltips([]))
    return alt.layer(
        diagonal(),
        base.mark_line(color=colour, strokeWidth=1.5).encode(y=y),
        base.mark_rule(color=colour, strokeWidth=2).encode(y=alt.Y("low:Q", scale=UNIT), y2="high:Q"),
        base.mark_point(color=colour, shape=shape, filled=True, size=70, opacity=1).encode(y=y),
    ).properties(height=_SMALL_HEIGHT if small else _HEIGHT)


def prefix_histogram(bins: pd.DataFrame, colours: alt.Scale) -> alt.Chart:
    """Draw how many prefixes the bins of a :func:`reliability_diagram` have. It stands below the diagram."""
    bars = alt.Chart(bins).mark_bar(color=colours.range[0])
    drawn: alt.Chart = bars.encode(
        x=alt.X("lower:Q", bin="binned", scale=UNIT, title="Reward (bin edges)"),
        x2="upper:Q",
        y=alt.Y("count:Q", title="Prefixes", axis=alt.Axis(tickCount=3, minExtent=_AXIS_WIDTH)),
        tooltip=[alt.Tooltip("count:Q", title="prefixes", format=",")],
    ).properties(height=_HISTOGRAM_HEIGHT)
    return drawn


def reliability_curves(bins: pd.DataFrame, series: Series) -> Layers:
    """Draw the reliability curves of several calibrators.

    Parameters
    ----------
    bins : DataFrame
        The bins of all calibrators, as for :func:`reliability_diagram`, with a column calibrator.
    series : Series
        The style of the calibrators.
    """
    shown = legend()
    base = alt.Chart(bins[bins["count"] > 0]).encode(
        x=alt.X("mean_reward:Q", scale=UNIT, title="Mean reward of the bin"),
        color=series.colour("calibrator", shown),
        tooltip=_bin_tooltips(["calibrator"]),
    )
    y = alt.Y("mean_success:Q", scale=UNIT, title="Success rate")
    points = base.mark_point(filled=True, size=45, opacity=1)
    layers = [
        diagonal(),
        base.mark_rule(strokeWidth=1).encode(y=alt.Y("low:Q", scale=UNIT), y2="high:Q"),
        base.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=series.dash("calibrator", shown)),
        points.encode(y=y, shape=series.shape("calibrator", shown)),
    ]
    return alt.layer(*layers).properties(height=_HEIGHT)


def signed_error_histogram(bins: pd.DataFrame, means: pd.DataFrame, series: Series) -> Layers:
    """Draw histograms of the signed error (reward minus success rate) of prefixes, one for each calibrator.

    Parameters
    ----------
    bins : DataFrame
        Columns calibrator, lower, upper, count.
    means : DataFrame
        Columns calibrator, value: the mean signed error.
    series : Series
        The style of the calibrators.
    """
    x = alt.X(
        "lower:Q",
        bin="binned",
        scale=_ERRORS,
        title="Reward \N{MINUS SIGN} success rate (above 0: overestimated)",
    )
    shown = legend(lines=False)
    colour = series.colour("calibrator", shown)
    bars = (
        alt.Chart(bins)
        .mark_bar(fillOpacity=0.35, strokeWidth=1.2)
        .encode(
            x=x,
            x2="upper:Q",
            y=alt.Y("count:Q", title="Prefixes", stack=None),
            color=colour,
            stroke=series.outline("calibrator", shown),
            tooltip=[
                alt.Tooltip("calibrator:N"),
                alt.Tooltip("lower:Q", format=".2f"),
                alt.Tooltip("upper:Q", format=".2f"),
                alt.Tooltip("count:Q", title="prefixes", format=","),
            ],
        )
    )
    lines = (
        alt.Chart(means)
        .mark_rule(strokeWidth=2.5)
        .encode(x="value:Q", color=colour, tooltip=tooltips(["calibrator"], ["value"], None))
    )
    return alt.layer(bars, zero_line(), lines).properties(height=_HEIGHT)


def coverage_chart(rows: pd.DataFrame, series: Series) -> Layers:
    """Draw the measured coverage of quantiles against the nominal coverage, with the diagonal of equality.

    Parameters
    ----------
    rows : DataFrame
        Columns calibrator, level (beta), nominal (1 - beta), coverage, low, high, n.
    series : Series
        The style of the calibrators.
    """
    position = rows["calibrator"].map({name: place for place, name in enumerate(series.names)})
    shift = _SHIFT * (position - (len(series.names) - 1) / 2)
    shown = legend(lines=False)
    base = alt.Chart(rows.assign(shifted=rows["nominal"] + shift)).encode(
        x=alt.X("shifted:Q", scale=UNIT, title="Nominal coverage 1 \N{MINUS SIGN} β"),
        color=series.colour("calibrator", shown),
        tooltip=tooltips(["calibrator"], ["level", "nominal", "coverage", "low", "high"]),
    )
    points = base.mark_point(filled=True, size=55, opacity=1)
    layers = [
        diagonal(),
        base.mark_rule(strokeWidth=2).encode(
            y=alt.Y("low:Q", scale=UNIT, title="Measured coverage"), y2="high:Q"
        ),
        points.encode(y="coverage:Q", shape=series.shape("calibrator", shown)),
    ]
    return alt.layer(*layers).properties(height=_HEIGHT)


def _bin_tooltips(names: list[str]) -> list[Any]:
    return [
        *tooltips(names, ["mean_reward", "mean_success", "low", "high"], None),
        alt.Tooltip("count:Q", title="prefixes", format=","),
    ]
