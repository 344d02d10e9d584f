"""Charts of calibration, and of values with their 95% intervals."""

import altair as alt
import pandas as pd

from prmcal.db import charts

_HEIGHT, _SMALL_HEIGHT, _HISTOGRAM_HEIGHT = 320, 220, 120
_AXIS_WIDTH = 30  # pixels left of an axis, so that charts above each other are aligned
_PREFIXES = alt.Tooltip("count:Q", title="prefixes", format=",")
_SHIFT = 0.018  # between points at the same place, which would otherwise hide each other


def reliability_chart(bins: pd.DataFrame, series: charts.Series, *, small: bool = False) -> charts.Layers:
    """Draw success rates against rewards, with the diagonal of perfect calibration.

    `bins` has the columns calibrator, lower, upper, count, mean_reward, mean_success, low and high. A `small` chart
    stands beside others of its kind.
    """
    shown = charts.legend() if len(series.names) > 1 else None
    numbers = charts.tooltips(["calibrator"], ["mean_reward", "mean_success", "low", "high"], None)
    base = alt.Chart(bins[bins["count"] > 0]).encode(
        x=alt.X("mean_reward:Q", scale=charts.UNIT, title="Mean reward of the bin"),
        color=series.colour("calibrator", shown),
        tooltip=[*numbers, _PREFIXES],
    )
    y = alt.Y("mean_success:Q", scale=charts.UNIT, title="Success rate", axis=alt.Axis(minExtent=_AXIS_WIDTH))
    lines = base.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=series.dash("calibrator", shown))
    points = charts.intervals(base, y, shape=series.shape("calibrator", shown))
    return alt.layer(charts.diagonal(), lines, *points).properties(height=_SMALL_HEIGHT if small else _HEIGHT)


def prefix_histogram(bins: pd.DataFrame, series: charts.Series) -> alt.Chart:
    """Draw how many prefixes the bins of one calibrator have. It stands below their :func:`reliability_chart`."""
    drawn: alt.Chart = (
        alt.Chart(bins)
        .mark_bar(color=series.colours[0])
        .encode(
            x=alt.X("lower:Q", bin="binned", scale=charts.UNIT, title="Reward (bin edges)"),
            x2="upper:Q",
            y=alt.Y("count:Q", title="Prefixes", axis=alt.Axis(tickCount=3, minExtent=_AXIS_WIDTH)),
            tooltip=[_PREFIXES],
        )
        .properties(height=_HISTOGRAM_HEIGHT)
    )
    return drawn


def signed_error_histogram(bins: pd.DataFrame, means: pd.DataFrame, series: charts.Series) -> charts.Layers:
    """Draw histograms of the signed error (reward minus success rate) of prefixes, one for each calibrator.

    `bins` has the columns calibrator, lower, upper and count; `means` has calibrator and value, the mean signed error.
    """
    shown = charts.legend(lines=False)
    numbers = [alt.Tooltip(f"{name}:Q", format=".2f") for name in ("lower", "upper")]
    base = alt.Chart(bins).encode(tooltip=[alt.Tooltip("calibrator:N"), *numbers, _PREFIXES])
    bars = charts.error_histograms(base, alt.Y("count:Q", title="Prefixes", stack=None), series, shown)
    lines = (
        alt.Chart(means)
        .mark_rule(strokeWidth=2.5)
        .encode(
            x="value:Q",
            color=series.colour("calibrator", shown),
            tooltip=charts.tooltips(["calibrator"], ["value"], None),
        )
    )
    return alt.layer(bars, charts.zero_line(), lines).properties(height=_HEIGHT)


def coverage_chart(rows: pd.DataFrame, series: charts.Series) -> charts.Layers:
    """Draw the measured coverage of quantiles against the nominal coverage, with the diagonal of equality.

    `rows` has the columns calibrator, level (beta), nominal (1 - beta), coverage, low, high and n.
    """
    position = rows["calibrator"].map({name: place for place, name in enumerate(series.names)})
    shift = _SHIFT * (position - (len(series.names) - 1) / 2)
    shown = charts.legend(lines=False)
    base = alt.Chart(rows.assign(shifted=rows["nominal"] + shift)).encode(
        x=alt.X("shifted:Q", scale=charts.UNIT, title="Nominal coverage 1 \N{MINUS SIGN} β"),
        color=series.colour("calibrator", shown),
        tooltip=charts.tooltips(["calibrator"], ["level", "nominal", "coverage", "low", "high"]),
    )
    y = alt.Y("coverage:Q", scale=charts.UNIT, title="Measured coverage")
    points = charts.intervals(base, y, shape=series.shape("calibrator", shown))
    return alt.layer(charts.diagonal(), *points).properties(height=_HEIGHT)


_LINE = 18  # pixels
_PADDING = 8  # pixels left and right of the intervals


def interval_chart(
    rows: pd.DataFrame,
    title: str,
    series: charts.Series,
    *,
    zero: bool = False,
    shown: alt.Legend | None = None,
) -> charts.Layers:
    """Draw values with their 95% intervals, one line each.

    `rows` has the columns label (of the line), series (it decides the colour), value, low, high, and n if it is known.
    The order of the rows is the order of the lines. The title is that of the axis, which has a line at 0 if `zero`.
    """
    axis = alt.Axis(
        labelFontSize=11, labelLimit=300, labelOverlap=False, ticks=False, domain=False, grid=False
    )
    base = alt.Chart(rows).encode(
        y=alt.Y("label:N", sort=None, title=None, axis=axis),
        color=series.colour("series", shown),
        tooltip=charts.tooltips(["label"], ["value", "low", "high"], "n" if "n" in rows else None),
    )
    x = alt.X(
        "value:Q",
        title=f"{title} (95% interval)",
        scale=alt.Scale(zero=False, nice=False, padding=_PADDING),
        axis=alt.Axis(tickCount=5, orient="top"),  # the top of a tall chart is what a reader sees first
    )
    points = charts.intervals(base, x, size=45, shape=alt.value("circle"))
    return alt.layer(*([charts.zero_line()] if zero else []), *points).properties(height=alt.Step(_LINE))
