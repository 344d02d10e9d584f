"""Charts of strategies: accuracy, cost and risk. Most follow the sliders for C and beta in the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.curves import LEVEL, TARGET
from prmcal.dashboard.charts.style import GREY, UNIT, Layers, Series, ink, legend, tooltips

__all__ = [
    "AT_LEVEL",
    "AT_SELECTION",
    "difficulty_chart",
    "equal_cost_chart",
    "following",
    "frontier_chart",
    "league_chart",
    "risk_chart",
]

_LEAGUE_HEIGHT = 400
_LEAGUE_BAND = 0.12
_MARGIN = 0.02
_LEGEND_COLUMN = 260  # pixels


def league_chart(points: pd.DataFrame, series: Series) -> Layers:
    """Draw the curves of strategies at one place, with the 95% bands of their accuracy.

    Parameters
    ----------
    points : DataFrame
        Columns entry, samples, accuracy, accuracy_low, accuracy_high and questions.
    series : Series
        The style of the entries.
    """
    ends = [1.0, max(2.0, float(points["samples"].max()))]
    x = alt.X(
        "samples:Q",
        scale=alt.Scale(type="log", base=2, domain=ends, nice=False),
        title="Mean samples per question",
        axis=alt.Axis(format=","),
    )
    low, high = float(points["accuracy_low"].min()), float(points["accuracy_high"].max())
    scale = alt.Scale(domain=[max(0.0, low - _MARGIN), min(1.0, high + _MARGIN)], nice=False)
    y = alt.Y("accuracy:Q", scale=scale, title="Accuracy")
    shown = legend(series.names)
    shown.columns = alt.ExprRef(f"max(1, floor(width / {_LEGEND_COLUMN}))")  # The names are long.
    base = alt.Chart(points).encode(x=x, color=series.colour("entry", shown))
    numbers = ["samples", "accuracy", "accuracy_low", "accuracy_high"]
    layers: Layers = alt.layer(
        base.mark_area(opacity=_LEAGUE_BAND).encode(
            y=alt.Y("accuracy_low:Q", scale=scale), y2="accuracy_high:Q"
        ),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=series.dash("entry", shown)),
        base.mark_point(filled=True, size=30, opacity=1).encode(
            y=y,
            shape=series.shape("entry", shown),
            tooltip=tooltips(["entry"], numbers, "questions"),
        ),
    ).properties(height=_LEAGUE_HEIGHT)
    return layers


AT_LEVEL = f"datum.level == {LEVEL}"
"""Keeps the rows of the selected beta, by their column `level`."""

AT_SELECTION = f"datum.target == {TARGET} && {AT_LEVEL}"
"""Keeps the rows of the selected C and beta, by their columns `target` and `level`."""


def following(chart: Layers, signals: Mapping[str, tuple[int, int]]) -> Layers:
    """Return a chart with signals: by name, the first value and the number of values."""
    bound = [
        alt.param(name=name, value=first, bind=alt.binding_range(min=0, max=max(count - 1, 1), step=1))
        for name, (first, count) in signals.items()
    ]
    followed: Layers = chart.add_params(*bound)
    return followed


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
        As :mod:`prmcal.dashboard.charts.curves` returns them, for all C and beta.
    measured : DataFrame
        Single strategies: series, name (shown in the tooltip), label (drawn beside the point; may be empty), cost,
        accuracy, accuracy_low, accuracy_high.
    title : str
        The title of the cost axis.
    series : Series
        The style of the series.
    signals : dict
        The signals of C and beta (:func:`prmcal.dashboard.charts.scaling.following`).
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
        The result of :func:`prmcal.dashboard.charts.curves.equal_cost_points`.
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


_LOWER_HEIGHT = 350
_FAINT_BAND = 0.07
_PADDING = 0.8  # of the step between two difficulty levels: room for the labels of lines
_LEAST_RISK = 0.05


def difficulty_chart(
    adaptive: pd.DataFrame,
    fixed: pd.DataFrame | None,
    column: str,
    title: str,
    series: Series,
    signals: Mapping[str, tuple[int, int]],
) -> Layers:
    """Draw accuracy or cost against the difficulty level.

    Parameters
    ----------
    adaptive, fixed : DataFrame
        The tables of :func:`prmcal.dashboard.charts.curves.difficulty_points`, the second only if it is drawn.
    column : {"accuracy", "cost"}
        The column to draw.
    title : str
        The title of the axis.
    series : Series
        The style of the series of both tables.
    signals : dict
        The signals of C and beta.
    """
    scale = UNIT if column == "accuracy" else alt.Scale(domain=[0, _highest(adaptive, column)])
    shown = legend([name for name in series.names if name in set(adaptive["series"])])
    columns = ["series", "question_level", column, f"{column}_low", f"{column}_high", "n"]
    base = alt.Chart(adaptive[[*columns, "target", "level"]]).transform_filter(AT_SELECTION)
    layers = _lines(base, column, title, scale, series, shown)
    if fixed is not None:
        layers += _lines(alt.Chart(fixed[columns]), column, title, scale, series, shown)
        ends = fixed[fixed["question_level"] == fixed["question_level"].max()]
        ends = ends.assign(label="n = " + ends["series"].str.split(" = ").str[-1])
        labels = alt.Chart(ends).mark_text(align="left", dx=7, fontSize=11)
        layers.append(
            labels.encode(
                x=_difficulty(), y=f"{column}:Q", text="label:N", color=series.colour("series", shown)
            )
        )
    return following(alt.layer(*layers).properties(height=_LOWER_HEIGHT), signals)


def _highest(rows: pd.DataFrame, column: str) -> float:
    """Return the highest value or end of an interval. The interval of a single question is NaN."""
    return float(rows[[column, f"{column}_high"]].max().max())


def _lines(
    base: alt.Chart, column: str, title: str, scale: alt.Scale, series: Series, shown: alt.Legend
) -> list[Any]:
    encoded = base.encode(
        x=_difficulty(),
        color=series.colour("series", shown),
        tooltip=tooltips(["series", "question_level"], [column, f"{column}_low", f"{column}_high"]),
    )
    y = alt.Y(f"{column}:Q", scale=scale, title=title)
    return [
        encoded.mark_rule(strokeWidth=2, opacity=0.5).encode(
            y=alt.Y(f"{column}_low:Q", scale=scale, title=title), y2=f"{column}_high:Q"
        ),
        encoded.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=series.dash("series", shown)),
        encoded.mark_point(filled=True, size=55, opacity=1).encode(y=y, shape=series.shape("series", shown)),
    ]


def _difficulty() -> alt.X:
    return alt.X(
        "question_level:O",
        title="Difficulty level (1: easy, 5: hard)",
        axis=alt.Axis(labelAngle=0),
        scale=alt.Scale(padding=_PADDING),
    )


def risk_chart(rows: pd.DataFrame, series: Series, signals: Mapping[str, tuple[int, int]]) -> Layers:
    """Draw the share of wrong answers against the share of questions that are answered.

    Parameters
    ----------
    rows : DataFrame
        Columns level (the place of the selected beta), series, threshold, coverage, risk, risk_low, risk_high,
        questions.
    series : Series
        The style of the calibrators.
    signals : dict
        The signal of beta.
    """
    shown = legend(series.names)
    base = (
        alt.Chart(rows)
        .transform_filter(AT_LEVEL)
        .encode(
            x=alt.X("coverage:Q", scale=UNIT, title="Coverage (share of questions answered)"),
            color=series.colour("series", shown),
        )
    )
    scale = alt.Scale(domain=[0, _highest_risk(rows)], nice=True)
    columns = ["threshold", "coverage", "risk", "risk_low", "risk_high"]
    layers = [
        base.mark_area(opacity=_FAINT_BAND).encode(y=alt.Y("risk_low:Q", scale=scale), y2="risk_high:Q"),
        base.mark_line(strokeWidth=1.5).encode(
            y=alt.Y("risk:Q", scale=scale, title="Risk (share of wrong answers)"),
            order="threshold:Q",
            strokeDash=series.dash("series", shown),
        ),
        base.mark_point(filled=True, size=25, opacity=1).encode(
            y="risk:Q",
            shape=series.shape("series", shown),
            tooltip=tooltips(["series"], columns, "questions"),
        ),
    ]
    return following(alt.layer(*layers).properties(height=_LOWER_HEIGHT), signals)


def _highest_risk(rows: pd.DataFrame) -> float:
    """Return the highest risk or end of an interval, at least 0.05; NaN where no risk is known counts as 0."""
    highest = _highest(rows, "risk")
    return highest if highest > _LEAST_RISK else _LEAST_RISK
