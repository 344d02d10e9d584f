"""Charts of scaling: accuracy against cost, accuracy and cost by difficulty, risk against coverage."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.style import UNIT, Layers, ink, legend, tooltips
from prmcal.dashboard.frames.scaling import FIXED

__all__ = ["difficulty_chart", "frontier_chart", "risk_chart"]

_HEIGHT, _SMALL_HEIGHT, _SIDE = 540, 420, 270
_BAND, _FAINT_BAND = 0.14, 0.07
_PADDING = 0.8  # of the step between two difficulty levels: room for the labels of lines
_LABEL = 0.055  # the height of a label, in units of accuracy
_LEAST_RISK = 0.05
_LOW = (
    0.6  # if all accuracies are below this, labels are drawn at the top of the chart, otherwise at the bottom
)


def frontier_chart(
    curves: pd.DataFrame, points: pd.DataFrame, title: str, colours: alt.Scale, shape: str
) -> Layers:
    """Draw accuracy against cost: curves with their 95% bands, single strategies, and the Pareto frontier.

    Parameters
    ----------
    curves : DataFrame
        Columns series (a calibrator, or :data:`prmcal.dashboard.frames.scaling.FIXED`), cost, accuracy, accuracy_low,
        accuracy_high, unbeaten.
    points : DataFrame
        The same columns and name (shown in the tooltip) and label (drawn beside the point; may be empty).
    title : str
        The title of the cost axis.
    colours : Scale
        The colours of the series.
    shape : str
        The shape of the LLM.
    """
    x = alt.X("cost:Q", scale=alt.Scale(type="log", base=2), title=title, axis=alt.Axis(format=","))
    y = alt.Y("accuracy:Q", scale=UNIT, title="Accuracy")
    low = alt.Y("accuracy_low:Q", scale=UNIT)
    colour = alt.Color("series:N", scale=colours, sort=None, legend=legend(2, list(colours.domain)))
    lines = alt.Chart(curves).encode(x=x, color=colour)
    marks = alt.Chart(points).encode(
        x=x,
        color=colour,
        tooltip=tooltips(["name"], ["cost", "accuracy", "accuracy_low", "accuracy_high"], None),
    )
    both = [table.loc[table["unbeaten"], ["cost", "accuracy"]] for table in (points, curves)]
    frontier = alt.Chart(pd.concat(both).sort_values(["cost", "accuracy"]))
    labelled = _with_label_places(points[points["label"] != ""], top=points["accuracy"].max() < _LOW)
    guides = alt.Chart(labelled).mark_rule(color=ink(), strokeDash=[1, 3], opacity=0.6)
    layers: list[Any] = [
        lines.mark_area(opacity=_BAND).encode(y=low, y2="accuracy_high:Q"),
        lines.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=_dashed([FIXED])),
        frontier.mark_line(color=ink(), strokeWidth=5, opacity=0.2, interpolate="step-after").encode(
            x=x, y=y
        ),
        marks.mark_rule(strokeWidth=2).encode(y=low, y2="accuracy_high:Q"),
        marks.mark_point(filled=True, size=70, opacity=1, shape=shape).encode(y=y),
        guides.encode(x=x, y=y, y2="label_at:Q"),
    ]
    middle = float((points["cost"].min() * points["cost"].max()) ** 0.5)
    for left in (True, False):
        side = alt.Chart(labelled[(labelled["cost"] > middle) == left]).encode(x=x, color=colour)
        text = side.mark_text(align="right" if left else "left", dx=-5 if left else 5, fontSize=11)
        layers.append(text.encode(y="label_at:Q", text="label:N"))
    return alt.layer(*layers).properties(height=_HEIGHT)


def _with_label_places(labelled: pd.DataFrame, top: bool) -> pd.DataFrame:
    """Add a column `label_at`, so that labels are stacked at the top or at the bottom of the chart."""
    ordered = labelled.sort_values(["cost", "accuracy"])
    places = pd.Series(range(len(ordered)), ordered.index)
    return ordered.assign(label_at=1 - _LABEL * (places + 1) if top else _LABEL * (len(ordered) - places))


def difficulty_chart(rows: pd.DataFrame, column: str, title: str, colours: alt.Scale, shape: str) -> Layers:
    """Draw accuracy or cost against the difficulty level.

    Parameters
    ----------
    rows : DataFrame
        Columns series, question_level, n, and the drawn column with its interval: ``accuracy``, ``accuracy_low`` and
        ``accuracy_high``, or the same of ``cost``.
    column : {"accuracy", "cost"}
        The column to draw.
    title : str
        The title of the axis.
    colours : Scale
        The colours of the series.
    shape : str
        The shape of the LLM.
    """
    scale = UNIT if column == "accuracy" else alt.Scale(zero=True)
    fixed = [name for name in colours.domain if name.startswith(FIXED)]
    adaptive = [name for name in colours.domain if name not in fixed]
    base = alt.Chart(rows).encode(
        x=alt.X(
            "question_level:O",
            title="Difficulty level (1: easy, 5: hard)",
            axis=alt.Axis(labelAngle=0),
            scale=alt.Scale(padding=_PADDING),
        ),
        color=alt.Color("series:N", scale=colours, sort=None, legend=legend(2, adaptive)),
        tooltip=tooltips(["series", "question_level"], [column, f"{column}_low", f"{column}_high"]),
    )
    layers = [
        base.mark_rule(strokeWidth=2, opacity=0.5).encode(
            y=alt.Y(f"{column}_low:Q", scale=scale, title=title), y2=f"{column}_high:Q"
        ),
        base.mark_line(strokeWidth=1.5).encode(y=f"{column}:Q", strokeDash=_dashed(fixed)),
        base.mark_point(filled=True, size=55, opacity=1, shape=shape).encode(y=f"{column}:Q"),
    ]
    ends = rows[rows["series"].isin(fixed) & (rows["question_level"] == rows["question_level"].max())]
    ends = ends.assign(label=ends["series"].str.removeprefix(f"{FIXED} = ").radd("n = "))
    labels = base.properties(data=ends).mark_text(align="left", dx=7, fontSize=11)
    layers.append(labels.encode(y=f"{column}:Q", text="label:N"))
    return alt.layer(*layers).properties(height=_SMALL_HEIGHT)


def _dashed(series: list[str]) -> Any:
    """Return the dashes of lines: dashed for these series, solid for all others."""
    predicate = alt.FieldOneOfPredicate("series", series)
    return alt.condition(predicate, alt.value([4, 4]), alt.value([1, 0]))


def risk_chart(rows: pd.DataFrame, colours: alt.Scale) -> alt.VConcatChart:
    """Draw the share of wrong answers against the share of questions that are answered.

    Parameters
    ----------
    rows : DataFrame
        Columns calibrator, threshold, coverage, risk, risk_low, risk_high, questions.
    colours : Scale
        The colours of the calibrators.
    """
    base = alt.Chart(rows).encode(
        x=alt.X("coverage:Q", scale=UNIT, title="Coverage (share of questions answered)"),
        color=alt.Color("calibrator:N", scale=colours, sort=None, legend=legend(2)),
    )
    scale = alt.Scale(domain=[0, _highest_risk(rows)], nice=True)
    columns = ["threshold", "coverage", "risk", "risk_low", "risk_high"]
    layers = [
        base.mark_area(opacity=_FAINT_BAND).encode(y=alt.Y("risk_low:Q", scale=scale), y2="risk_high:Q"),
        base.mark_line(strokeWidth=1.5).encode(
            y=alt.Y("risk:Q", scale=scale, title="Risk (share of wrong answers)"), order="threshold:Q"
        ),
        base.mark_point(filled=True, size=25, opacity=1).encode(
            y="risk:Q", tooltip=tooltips(["calibrator"], columns, "questions")
        ),
    ]
    return alt.vconcat(alt.layer(*layers).properties(width=_SIDE, height=_SIDE))


def _highest_risk(rows: pd.DataFrame) -> float:
    """Return the highest risk or end of an interval, at least 0.05; NaN where no risk is known counts as 0."""
    highest = float(rows[["risk", "risk_high"]].max().max())
    return highest if highest > _LEAST_RISK else _LEAST_RISK
