"""Charts of budgets: accuracy against cost, and accuracy minus that of a fixed n at equal cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.following import AT_LEVEL, AT_SELECTION, following
from prmcal.dashboard.charts.style import GREY, UNIT, Layers, Series, ink, legend, tooltips

__all__ = ["equal_cost_chart", "frontier_chart"]

_HEIGHT = 400
_BAND = 0.14
_LABEL = 0.07  # the height of a label, in units of accuracy
_LOW = (
    0.6  # if all accuracies are below this, labels are drawn at the top of the chart, otherwise at the bottom
)
_POINTS = 100  # percentage points in 1


def frontier_chart(
    adaptive: pd.DataFrame,
    fixed: pd.DataFrame,
    measured: pd.DataFrame,
    frontier: pd.DataFrame,
    title: str,
    series: Series,
    signals: Mapping[str, tuple[int, int]],
) -> Layers:
    """Draw accuracy against cost: curves with their 95% bands, single strategies, and the Pareto frontier.

    Parameters
    ----------
    adaptive, fixed, frontier : DataFrame
        As :mod:`prmcal.dashboard.frames.scaling` returns them, for all C and beta.
    measured : DataFrame
        Single strategies: series, name (shown in the tooltip), label (drawn beside the point; may be empty), cost,
        accuracy, accuracy_low, accuracy_high.
    title : str
        The title of the cost axis.
    series : Series
        The style of the series.
    signals : dict
        The signals of C and beta (:func:`prmcal.dashboard.charts.following.following`).
    """
    costs = pd.concat([adaptive["cost"], fixed["cost"], measured["cost"]])
    ends = alt.Scale(type="log", base=2, domain=[float(costs.min()), float(costs.max())], nice=False)
    x = alt.X("cost:Q", scale=ends, title=title, axis=alt.Axis(format=","))
    y = alt.Y("accuracy:Q", scale=UNIT, title="Accuracy")
    low = alt.Y("accuracy_low:Q", scale=UNIT)
    shown = legend(series.names)
    colour, dash = series.colour("series", shown), series.dash("series", shown)
    curves = alt.Chart(adaptive).encode(x=x, color=colour).transform_filter(AT_LEVEL)
    chosen = alt.Chart(adaptive).encode(x=x, color=colour).transform_filter(AT_SELECTION)
    without = alt.Chart(fixed).encode(x=x, color=colour)
    single = alt.Chart(measured).encode(x=x, color=colour, tooltip=_tooltips("name"))
    labelled = _with_label_places(measured[measured["label"] != ""], costs, measured["accuracy"].max() < _LOW)
    guides = alt.Chart(labelled).mark_rule(color=GREY, strokeDash=[1, 3])
    steps = alt.Chart(frontier).transform_filter(AT_SELECTION).encode(x=x, y=y)
    shape = series.shape("series", shown)
    layers: list[Any] = [
        steps.mark_line(color=GREY, strokeWidth=6, opacity=0.45, interpolate="step-after"),
        *(each.mark_area(opacity=_BAND).encode(y=low, y2="accuracy_high:Q") for each in (without, curves)),
        *(each.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=dash) for each in (without, curves)),
        single.mark_rule(strokeWidth=2).encode(y=low, y2="accuracy_high:Q"),
        single.mark_point(filled=True, size=50, opacity=1).encode(y=y, shape=shape),
        guides.encode(x=x, y=y, y2="label_at:Q"),
        chosen.mark_rule(strokeWidth=2.5).encode(y=low, y2="accuracy_high:Q"),
        chosen.mark_point(filled=True, size=130, opacity=1, stroke=ink(), strokeWidth=1).encode(
            y=y, shape=shape, tooltip=_tooltips("series", "C", "beta")
        ),
    ]
    for left in (True, False):
        side = alt.Chart(labelled[labelled["left"] == left]).encode(x=x, color=colour)
        text = side.mark_text(align="right" if left else "left", dx=-5 if left else 5, fontSize=11)
        layers.append(text.encode(y="label_at:Q", text="label:N"))
    return following(alt.layer(*layers).properties(height=_HEIGHT), signals)


def _tooltips(*names: str) -> list[Any]:
    return tooltips(names, ["cost", "accuracy", "accuracy_low", "accuracy_high"], None)


def _with_label_places(labelled: pd.DataFrame, costs: pd.Series, top: bool) -> pd.DataFrame:
    """Say where labels are drawn: in two stacks, at the top or at the bottom of the chart.

    The column `left` says whether a label stands left of its point, as those in the right half of the chart do. The
    column `label_at` is its height, in units of accuracy.
    """
    middle = float((costs.min() * costs.max()) ** 0.5)
    ordered = labelled.assign(left=labelled["cost"] > middle).sort_values(["cost", "accuracy"])
    stacks = ordered.groupby("left")
    places, sizes = stacks.cumcount(), stacks["left"].transform("size")
    return ordered.assign(label_at=1 - _LABEL * (places + 1) if top else _LABEL * (sizes - places))


def equal_cost_chart(rows: pd.DataFrame, series: Series, signals: Mapping[str, tuple[int, int]]) -> Layers:
    """Draw the accuracy of best-of-n + IAS minus that of the fixed n at equal cost, with its 95% band.

    Parameters
    ----------
    rows : DataFrame
        The result of :func:`prmcal.dashboard.frames.scaling.equal_cost_points`.
    series : Series
        The style of the calibrators.
    signals : dict
        The signals of C and beta.
    """
    points = rows.assign(**{name: _POINTS * rows[name] for name in ("difference", "low", "high")})
    ends = alt.Scale(type="log", base=2, domain=[1, float(rows["samples"].max())], nice=False)
    x = alt.X("samples:Q", scale=ends, title="Mean samples per question", axis=alt.Axis(format=","))
    drawn = points[["difference", "low", "high"]]
    # The axis does not move with beta. Otherwise curves of different beta could not be compared.
    reach = alt.Scale(domain=[min(drawn.min().min(), -1.0), max(drawn.max().max(), 1.0)], nice=True)
    title = "Accuracy minus fixed n (points)"
    y = alt.Y("difference:Q", scale=reach, title=title)
    low = alt.Y("low:Q", scale=reach)
    shown = legend(series.names)
    base = alt.Chart(points).encode(x=x, color=series.colour("series", shown))
    curves, chosen = base.transform_filter(AT_LEVEL), base.transform_filter(AT_SELECTION)
    zero = alt.Chart(pd.DataFrame({"difference": [0.0]})).mark_rule(color=ink(), strokeDash=[4, 4])
    numbers = ["samples", "difference", "low", "high"]
    return following(
        alt.layer(
            zero.encode(y=y),
            curves.mark_area(opacity=_BAND).encode(y=low, y2="high:Q"),
            curves.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=series.dash("series", shown)),
            chosen.mark_rule(strokeWidth=2.5).encode(y=low, y2="high:Q"),
            chosen.mark_point(filled=True, size=130, opacity=1, stroke=ink(), strokeWidth=1).encode(
                y=y, shape=series.shape("series", shown), tooltip=tooltips(["series", "C", "beta"], numbers)
            ),
        ).properties(height=_HEIGHT),
        signals,
    )
