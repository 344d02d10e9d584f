"""The Altair charts of the pages: calibration, values with their 95% intervals, and accuracy against cost."""

from typing import Any

import altair as alt
import pandas as pd

from prmcal.db import charts, pictures

_SQUARE = 290  # pixels; a phone has room for the square and its axis
_HEIGHT = 340
_BAND = 0.14
_LEGEND_COLUMN = 260  # pixels
_LABEL = 0.07  # the height of a label, as a share of that of the chart
_POINTS = 100  # percentage points in 1
_LINE = 18  # pixels
_MARGIN = 8  # pixels left and right of the intervals


def reliability_chart(bins: pd.DataFrame, series: charts.Series, size: int = _SQUARE) -> charts.Layers:
    """Draw how often scores are right, in a square.

    `bins` has the columns calibrator, lower, upper, count, mean_reward, mean_success, low and high.
    """
    shown_legend = charts.legend(series.names, lines=False, width=size + 60) if len(series.names) > 1 else None
    tooltip = charts.tooltips(["series"], ["score", "right", "right_low", "right_high"], None)
    tooltip.append(alt.Tooltip("n:Q", title="prefixes", format=","))
    # The square is that of the axes, whatever stands around it.
    square = pictures.reliability(pictures.points_of(bins), series, shown_legend, tooltip=tooltip)
    around = {"autosize": alt.AutoSizeParams(type="pad"), "padding": {"bottom": 0, "top": 0, "left": 0, "right": 5}}
    return square.properties(width=size, height=size, **around)


def interval_chart(
    rows: pd.DataFrame, title: str, series: charts.Series, *, zero: bool = False, shown_legend: alt.Legend | None = None
) -> charts.Layers:
    """Draw values with their 95% intervals, one line each.

    `rows` has the columns label (of the line), series (it decides the colour), value, low, high, and n if it is known.
    The order of the rows is the order of the lines. The title is for the axis, which has a line at 0 if `zero`.
    """
    tooltip = charts.tooltips(["label"], ["value", "low", "high"], "n" if "n" in rows else None)
    base = alt.Chart(rows).encode(tooltip=tooltip)
    scale = alt.Scale(zero=False, nice=False, padding=_MARGIN)
    top = alt.Axis(tickCount=5, orient="top")  # the top of a tall chart is what a reader sees first
    x = alt.X("value:Q", title=f"{title} (95% interval)", scale=scale, axis=top)
    axis = alt.Axis(labelFontSize=11, labelLimit=300, labelOverlap=False, labelFlush=False)
    points = pictures.forest(base, "label", x, series, shown_legend, by="series", axis=axis, size=45)
    return alt.layer(*([charts.zero_line()] if zero else []), *points).properties(height=alt.Step(_LINE))


def _budgets(column: str, smallest: float, largest: float) -> alt.X:
    scale = alt.Scale(type="log", base=2, domain=[smallest, largest], nice=False)
    return alt.X(f"{column}:Q", scale=scale, title="Mean samples per question", axis=alt.Axis(format=","))


def _selected_points(
    rows: pd.DataFrame, target: float, x: alt.X, y: alt.Y, series: charts.Series, shown_legend: alt.Legend
) -> list[alt.Chart]:
    """Return a large point with its interval for the selected C of each series."""
    numbers = [axis["shorthand"].partition(":")[0] for axis in (x, y)]
    tooltip = charts.tooltips(["series", "C", "beta"], numbers, None)
    points = alt.Chart(rows[rows["C"] == target]).encode(x=x)
    return charts.curves(points, y, series, shown_legend, rule=1, point=130, tooltip=tooltip)


def frontier_chart(
    adaptive: pd.DataFrame,
    fixed: pd.DataFrame,
    strategies: pd.DataFrame,
    frontier: pd.DataFrame,
    series: charts.Series,
    target: float,
) -> charts.Layers:
    """Draw accuracy against cost: curves, the 95% band of a fixed n, single strategies, and the Pareto frontier.

    Curves and frontier come from :mod:`prmcal.dashboard.charts.curves`. `strategies` has the columns series, name
    (shown in the tooltip), label (drawn beside the point), cost, accuracy, accuracy_low and accuracy_high. `target` is
    the selected C. The axes fit the data.
    """
    point_tables = [adaptive[adaptive["C"] == target], fixed, strategies]
    ends = pd.concat(point_tables)[["accuracy_low", "accuracy_high"]]
    lowest, highest = float(ends["accuracy_low"].min()), float(ends["accuracy_high"].max())
    costs = pd.concat([adaptive["cost"], fixed["cost"], strategies["cost"]])
    x = _budgets("cost", float(costs.min()), float(costs.max()))
    scale = alt.Scale(domain=[lowest, highest], nice=True, clamp=True)
    y = alt.Y("accuracy:Q", scale=scale, title="Accuracy", axis=alt.Axis(format=".0%"))
    low = alt.Y("accuracy_low:Q", scale=scale)
    shown_legend = charts.legend(series.names)
    colour = series.colour("series", shown_legend)
    numbers = ["cost", "accuracy", "accuracy_low", "accuracy_high"]
    single = alt.Chart(strategies).encode(x=x, color=colour, tooltip=charts.tooltips(["name"], numbers, None))
    labelled = _with_label_places(strategies, costs, lowest, highest)
    guides = alt.Chart(labelled).mark_rule(color=charts.GREY, strokeDash=[1, 3])
    steps = alt.Chart(frontier).encode(x=x, y=y)
    layers: list[Any] = [
        steps.mark_line(color=charts.GREY, strokeWidth=6, opacity=0.45, interpolate="step-after"),
        *charts.curves(alt.Chart(fixed).encode(x=x), y, series, shown_legend, band=_BAND),
        *charts.curves(alt.Chart(adaptive).encode(x=x), y, series, shown_legend),
        single.mark_rule(strokeWidth=2).encode(y=low, y2="accuracy_high:Q"),
        single.mark_point(filled=True, size=50, opacity=1).encode(y=y, shape=series.shape("series", shown_legend)),
        guides.encode(x=x, y=y, y2="label_at:Q"),
        *_selected_points(adaptive, target, x, y, series, shown_legend),
    ]
    for is_left in (True, False):
        side = alt.Chart(labelled[labelled["left"] == is_left]).encode(x=x, color=colour)
        text = side.mark_text(align="right" if is_left else "left", dx=-5 if is_left else 5, fontSize=11)
        layers.append(text.encode(y="label_at:Q", text="label:N"))
    return alt.layer(*layers).properties(height=_HEIGHT)


def _with_label_places(labelled: pd.DataFrame, costs: pd.Series, lowest: float, highest: float) -> pd.DataFrame:
    """Say where labels are drawn: in two stacks at the bottom of a chart whose vertical axis has these ends.

    The column `left` is true if a label stands left of its point. This holds for the right half of the chart. The
    column `label_at` is its height, in units of accuracy.
    """
    middle = float((costs.min() * costs.max()) ** 0.5)
    ordered = labelled.assign(left=labelled["cost"] > middle).sort_values(["cost", "accuracy"], ascending=[True, False])
    stacks = ordered.groupby("left")
    positions, sizes = stacks.cumcount(), stacks["left"].transform("size")
    return ordered.assign(label_at=lowest + _LABEL * (highest - lowest) * (sizes - positions))


def equal_cost_chart(rows: pd.DataFrame, series: charts.Series, target: float) -> charts.Layers:
    """Draw the accuracy of best-of-n + IAS minus the fixed n's accuracy at equal cost, with its 95% band.

    `rows` come from :func:`prmcal.dashboard.charts.curves.equal_cost_points`, and `target` is the selected C.
    """
    points = rows.rename(columns={"low": "difference_low", "high": "difference_high"})
    points[["difference", "difference_low", "difference_high"]] *= _POINTS
    lowest, highest = points["difference_low"].min(), points["difference_high"].max()
    reach = alt.Scale(domain=[min(lowest, -1.0), max(highest, 1.0)], nice=True)
    y = alt.Y("difference:Q", scale=reach, title="Accuracy minus fixed n (points)")
    shown_legend = charts.legend(series.names)
    x = _budgets("samples", 1, float(rows["samples"].max()))
    zero = alt.Chart(pd.DataFrame({"difference": [0.0]})).mark_rule(color=charts.INK, strokeDash=[4, 4])
    lines = charts.curves(alt.Chart(points).encode(x=x), y, series, shown_legend, band=_BAND)
    layers = [zero.encode(y=y), *lines, *_selected_points(points, target, x, y, series, shown_legend)]
    return alt.layer(*layers).properties(height=_HEIGHT)


def league_chart(points: pd.DataFrame, series: charts.Series) -> charts.Layers:
    """Draw the curves of strategies at one setting, with the 95% bands of their accuracy.

    `points` has the columns entry, samples, accuracy, accuracy_low, accuracy_high and questions.
    """
    y = alt.Y("accuracy:Q", scale=alt.Scale(zero=False, nice=False), title="Accuracy")
    shown_legend = charts.legend(series.names)
    shown_legend.columns = alt.ExprRef(f"max(1, floor(width / {_LEGEND_COLUMN}))")  # The names are long.
    numbers = ["samples", "accuracy", "accuracy_low", "accuracy_high"]
    tooltip = charts.tooltips(["entry"], numbers, "questions")
    x = _budgets("samples", 1.0, max(2.0, float(points["samples"].max())))
    base = alt.Chart(points).encode(x=x)
    layers = charts.curves(base, y, series, shown_legend, by="entry", band=_BAND / 2, point=30, tooltip=tooltip)
    return alt.layer(*layers).properties(height=_HEIGHT)
