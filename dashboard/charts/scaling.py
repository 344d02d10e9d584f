"""Charts of strategies: accuracy, cost and risk."""

from typing import Any

import altair as alt
import pandas as pd

from prmcal.db.charts import GREY, INK, UNIT, Layers, Series, curves, legend, tooltips

_HEIGHT, _LOWER_HEIGHT = 400, 350
_BAND, _FAINT_BAND = 0.14, 0.07
_LEGEND_COLUMN = 260  # pixels
_LABEL = 0.07  # the height of a label, in units of accuracy
_LOW = 0.6  # below this accuracy, labels are drawn at the top of the chart, otherwise at the bottom
_POINTS = 100  # percentage points in 1
_PADDING = 0.8  # of the step between two difficulty levels: room for the labels of lines
_LEAST_RISK = 0.05


def _budgets(column: str, least: float, most: float, title: str) -> alt.X:
    scale = alt.Scale(type="log", base=2, domain=[least, most], nice=False)
    return alt.X(f"{column}:Q", scale=scale, title=title, axis=alt.Axis(format=","))


def _chosen(
    rows: pd.DataFrame, target: float, x: alt.X, y: alt.Y, series: Series, shown: alt.Legend
) -> list[alt.Chart]:
    """Return a large point with its interval for the selected C of each series."""
    numbers = [each["shorthand"].partition(":")[0] for each in (x, y)]
    tooltip = tooltips(["series", "C", "beta"], numbers, None)
    drawn = alt.Chart(rows[rows["C"] == target]).encode(x=x)
    return curves(drawn, y, series, shown, rule=1, point=130, tooltip=tooltip)


def frontier_chart(
    adaptive: pd.DataFrame,
    fixed: pd.DataFrame,
    measured: pd.DataFrame,
    frontier: pd.DataFrame,
    title: str,
    series: Series,
    target: float,
) -> Layers:
    """Draw accuracy against cost: curves with their 95% bands, single strategies, and the Pareto frontier.

    Curves and frontier are those of :mod:`prmcal.dashboard.charts.curves`. `measured` has the columns series, name
    (shown in the tooltip), label (drawn beside the point; may be empty), cost, accuracy, accuracy_low and
    accuracy_high. `title` is that of the cost axis, and `target` is the selected C.
    """
    costs = pd.concat([adaptive["cost"], fixed["cost"], measured["cost"]])
    x = _budgets("cost", float(costs.min()), float(costs.max()), title)
    y = alt.Y("accuracy:Q", scale=UNIT, title="Accuracy")
    low = alt.Y("accuracy_low:Q", scale=UNIT)
    shown = legend(series.names)
    colour = series.colour("series", shown)
    numbers = ["cost", "accuracy", "accuracy_low", "accuracy_high"]
    single = alt.Chart(measured).encode(x=x, color=colour, tooltip=tooltips(["name"], numbers, None))
    labelled = _with_label_places(measured[measured["label"] != ""], costs, measured["accuracy"].max() < _LOW)
    guides = alt.Chart(labelled).mark_rule(color=GREY, strokeDash=[1, 3])
    steps = alt.Chart(frontier).encode(x=x, y=y)
    layers: list[Any] = [
        steps.mark_line(color=GREY, strokeWidth=6, opacity=0.45, interpolate="step-after"),
        *curves(alt.Chart(fixed).encode(x=x), y, series, shown, band=_BAND),
        *curves(alt.Chart(adaptive).encode(x=x), y, series, shown, band=_BAND),
        single.mark_rule(strokeWidth=2).encode(y=low, y2="accuracy_high:Q"),
        single.mark_point(filled=True, size=50, opacity=1).encode(y=y, shape=series.shape("series", shown)),
        guides.encode(x=x, y=y, y2="label_at:Q"),
        *_chosen(adaptive, target, x, y, series, shown),
    ]
    for left in (True, False):
        side = alt.Chart(labelled[labelled["left"] == left]).encode(x=x, color=colour)
        text = side.mark_text(align="right" if left else "left", dx=-5 if left else 5, fontSize=11)
        layers.append(text.encode(y="label_at:Q", text="label:N"))
    return _layered(layers, _HEIGHT)


def _layered(layers: list[Any], height: int) -> Layers:
    drawn: Layers = alt.layer(*layers).properties(height=height)
    return drawn


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


def equal_cost_chart(rows: pd.DataFrame, series: Series, target: float) -> Layers:
    """Draw the accuracy of best-of-n + IAS minus that of the fixed n at equal cost, with its 95% band.

    `rows` are those of :func:`prmcal.dashboard.charts.curves.equal_cost_points`, and `target` is the selected C.
    """
    points = rows.rename(columns={"low": "difference_low", "high": "difference_high"})
    points[["difference", "difference_low", "difference_high"]] *= _POINTS
    lowest, highest = points["difference_low"].min(), points["difference_high"].max()
    reach = alt.Scale(domain=[min(lowest, -1.0), max(highest, 1.0)], nice=True)
    y = alt.Y("difference:Q", scale=reach, title="Accuracy minus fixed n (points)")
    shown = legend(series.names)
    x = _budgets("samples", 1, float(rows["samples"].max()), "Mean samples per question")
    zero = alt.Chart(pd.DataFrame({"difference": [0.0]})).mark_rule(color=INK, strokeDash=[4, 4])
    layers = [
        zero.encode(y=y),
        *curves(alt.Chart(points).encode(x=x), y, series, shown, band=_BAND),
        *_chosen(points, target, x, y, series, shown),
    ]
    return _layered(layers, _HEIGHT)


def difficulty_chart(
    adaptive: pd.DataFrame, fixed: pd.DataFrame, column: str, title: str, series: Series
) -> Layers:
    """Draw a column, accuracy or cost, against the difficulty level.

    The tables are those of :func:`prmcal.dashboard.charts.curves.difficulty_points`. The second has a label at its last
    points, and may be empty.
    """
    scale = UNIT if column == "accuracy" else alt.Scale(domain=[0, _highest(adaptive, column)])
    y = alt.Y(f"{column}:Q", scale=scale, title=title)
    x = alt.X(
        "question_level:O",
        title="Difficulty level (1: easy, 5: hard)",
        axis=alt.Axis(labelAngle=0),
        scale=alt.Scale(padding=_PADDING),
    )
    shown = legend([name for name in series.names if name in set(adaptive["series"])])
    tooltip = tooltips(["series", "question_level"], [column, f"{column}_low", f"{column}_high"])
    base = alt.Chart(pd.concat([adaptive, fixed])).encode(x=x)
    layers = curves(base, y, series, shown, rule=0.5, point=55, tooltip=tooltip)
    ends = fixed[fixed["question_level"] == fixed["question_level"].max()]
    labels = alt.Chart(ends.assign(label="n = " + ends["series"].str.split(" = ").str[-1]))
    text = labels.mark_text(align="left", dx=7, fontSize=11).encode(x=x, y=y, text="label:N")
    layers.append(text.encode(color=series.colour("series", shown)))
    return _layered(layers, _LOWER_HEIGHT)


def _highest(rows: pd.DataFrame, column: str) -> float:
    """Return the highest value or end of an interval. The interval of a single question is NaN."""
    return float(rows[[column, f"{column}_high"]].max().max())


def risk_chart(rows: pd.DataFrame, series: Series) -> Layers:
    """Draw the share of wrong answers against the share of questions that are answered.

    `rows` has the columns series, threshold, coverage, risk, risk_low, risk_high and questions.
    """
    x = alt.X("coverage:Q", scale=UNIT, title="Coverage (share of questions answered)")
    highest = _highest(rows, "risk")  # NaN where no risk is known
    scale = alt.Scale(domain=[0, highest if highest > _LEAST_RISK else _LEAST_RISK], nice=True)
    y = alt.Y("risk:Q", scale=scale, title="Risk (share of wrong answers)")
    tooltip = tooltips(["series"], ["threshold", "coverage", "risk", "risk_low", "risk_high"], "questions")
    base, shown = alt.Chart(rows).encode(x=x), legend(series.names)
    layers = curves(base, y, series, shown, band=_FAINT_BAND, point=25, tooltip=tooltip, order="threshold:Q")
    return _layered(layers, _LOWER_HEIGHT)


def league_chart(points: pd.DataFrame, series: Series) -> Layers:
    """Draw the curves of strategies at one place, with the 95% bands of their accuracy.

    `points` has the columns entry, samples, accuracy, accuracy_low, accuracy_high and questions.
    """
    y = alt.Y("accuracy:Q", scale=alt.Scale(zero=False, nice=False), title="Accuracy")
    shown = legend(series.names)
    shown.columns = alt.ExprRef(f"max(1, floor(width / {_LEGEND_COLUMN}))")  # The names are long.
    tooltip = tooltips(["entry"], ["samples", "accuracy", "accuracy_low", "accuracy_high"], "questions")
    x = _budgets("samples", 1.0, max(2.0, float(points["samples"].max())), "Mean samples per question")
    base = alt.Chart(points).encode(x=x)
    layers = curves(base, y, series, shown, by="entry", band=_BAND, point=30, tooltip=tooltip)
    return _layered(layers, _HEIGHT)
