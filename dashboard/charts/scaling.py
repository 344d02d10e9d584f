"""Charts of scaling: accuracy against cost and by difficulty, risk against coverage."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.style import UNIT, Layers, hints, ink, legend

__all__ = ["FIXED", "difficulty_chart", "frontier_chart", "risk_chart"]

FIXED = "fixed n"
"""What the same n for every question is called."""

_HEIGHT, _SMALL_HEIGHT = 540, 420
_BAND, _FAINT_BAND = 0.14, 0.07
_ASIDE = 0.8  # of the step between two difficulties: room for the names of lines
_NOTE = 0.055  # the height of a note, as an accuracy
_LEAST_RISK = 0.05
_LOW = 0.6  # curves below this leave the head of the chart free, others its foot


def frontier_chart(
    curves: pd.DataFrame, points: pd.DataFrame, title: str, colours: alt.Scale, shape: str
) -> Layers:
    """Draw accuracy against cost: curves with their bands, single strategies, and the frontier that none beats.

    Parameters
    ----------
    curves : DataFrame
        Columns series, cost, accuracy, accuracy_low, accuracy_high, unbeaten; those of a fixed n are called "fixed n".
    points : DataFrame
        Columns series (its colour), name, note (written beside it; may be empty), cost, accuracy, low, high, unbeaten.
    title : str
        Of the axis of costs.
    colours : Scale
    shape : str
        That of the LLM.
    """
    across = alt.X("cost:Q", scale=alt.Scale(type="log", base=2), title=title, axis=alt.Axis(format=","))
    colour = alt.Color("series:N", scale=colours, sort=None, legend=legend(2, list(colours.domain)))
    up = alt.Y("accuracy:Q", scale=UNIT, title="Accuracy")
    lines = alt.Chart(curves).encode(x=across, color=colour)
    dashed = alt.condition(alt.datum.series == FIXED, alt.value([4, 4]), alt.value([1, 0]))
    shown = alt.Chart(points).encode(
        x=across, color=colour, tooltip=hints(["name"], ["cost", "accuracy", "low", "high"], None)
    )
    on_frontier = [table.loc[table["unbeaten"], ["cost", "accuracy"]] for table in (points, curves)]
    unbeaten = pd.concat(on_frontier).sort_values(["cost", "accuracy"])
    layers: list[Any] = [
        lines.mark_area(opacity=_BAND).encode(y=alt.Y("accuracy_low:Q", scale=UNIT), y2="accuracy_high:Q"),
        lines.mark_line(strokeWidth=1.5).encode(y=up, strokeDash=dashed),
        alt.Chart(unbeaten)
        .mark_line(color=ink(), strokeWidth=5, opacity=0.2, interpolate="step-after")
        .encode(x=across, y=up),
        shown.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", scale=UNIT), y2="high:Q"),
        shown.mark_point(filled=True, size=70, opacity=1, shape=shape).encode(y=up),
    ]
    noted = _stacked(points[points["note"] != ""], high=points["accuracy"].max() < _LOW)
    guides = alt.Chart(noted).mark_rule(color=ink(), strokeDash=[1, 3], opacity=0.6)
    layers.append(guides.encode(x=across, y=up, y2="note_at:Q"))
    middle = float((points["cost"].min() * points["cost"].max()) ** 0.5)
    for left in (True, False):
        beside = alt.Chart(noted[(noted["cost"] > middle) == left]).encode(x=across, color=colour)
        text = beside.mark_text(align="right" if left else "left", dx=-5 if left else 5, fontSize=11)
        layers.append(text.encode(y="note_at:Q", text="note:N"))
    return alt.layer(*layers).properties(height=_HEIGHT)


def _stacked(noted: pd.DataFrame, high: bool) -> pd.DataFrame:
    """Where notes stand: one below the other at the foot of the chart, or at its head if all points are low."""
    ordered = noted.sort_values(["cost", "accuracy"])
    places = pd.Series(range(len(ordered)), ordered.index)
    return ordered.assign(note_at=1 - _NOTE * (places + 1) if high else _NOTE * (len(ordered) - places))


def difficulty_chart(rows: pd.DataFrame, column: str, title: str, colours: alt.Scale, shape: str) -> Layers:
    """Draw accuracy, or samples, by difficulty.

    Parameters
    ----------
    rows : DataFrame
        Columns series, question_level, the column, and with ``_low`` and ``_high`` behind its name the interval, and n.
    column : str
        "accuracy" or "samples".
    title : str
        Of the axis.
    colours : Scale
    shape : str
        That of the LLM.
    """
    unit = column == "accuracy"
    up = alt.Scale(domain=[0, 1], nice=False) if unit else alt.Scale(zero=True)
    fixed = [name for name in colours.domain if name.startswith(FIXED)]
    dashed = alt.condition(alt.FieldOneOfPredicate("series", fixed), alt.value([4, 4]), alt.value([1, 0]))
    key = legend(2, [name for name in colours.domain if name not in fixed])
    base = alt.Chart(rows).encode(
        x=alt.X(
            "question_level:O",
            title="Difficulty, 1 (easy) to 5",
            axis=alt.Axis(labelAngle=0),
            scale=alt.Scale(padding=_ASIDE),
        ),
        color=alt.Color("series:N", scale=colours, sort=None, legend=key),
        tooltip=hints(["series", "question_level"], [column, f"{column}_low", f"{column}_high"]),
    )
    layers = [
        base.mark_rule(strokeWidth=2, opacity=0.5).encode(
            y=alt.Y(f"{column}_low:Q", scale=up, title=title), y2=f"{column}_high:Q"
        ),
        base.mark_line(strokeWidth=1.5).encode(y=f"{column}:Q", strokeDash=dashed),
        base.mark_point(filled=True, size=55, opacity=1, shape=shape).encode(y=f"{column}:Q"),
    ]
    ends = rows[rows["series"].isin(fixed) & (rows["question_level"] == rows["question_level"].max())]
    ends = ends.assign(named=ends["series"].str.removeprefix(f"{FIXED} = ").radd("n = "))
    named = base.properties(data=ends).mark_text(align="left", dx=7, fontSize=11)
    layers.append(named.encode(y=f"{column}:Q", text="named:N"))
    return alt.layer(*layers).properties(height=_SMALL_HEIGHT)


def risk_chart(rows: pd.DataFrame, colours: alt.Scale) -> alt.VConcatChart:
    """Draw the share of wrong answers, from 0 to the highest, against the share of questions that are answered.

    `rows` has the columns calibrator, threshold, coverage, risk, risk_low, risk_high and questions.
    """
    base = alt.Chart(rows).encode(
        x=alt.X("coverage:Q", scale=UNIT, title="Coverage: share of questions answered"),
        color=alt.Color("calibrator:N", scale=colours, sort=None, legend=legend(2)),
    )
    up = alt.Scale(domain=[0, _highest(rows)], nice=True)
    seen = hints(["calibrator"], ["threshold", "coverage", "risk", "risk_low", "risk_high"], "questions")
    layers = [
        base.mark_area(opacity=_FAINT_BAND).encode(y=alt.Y("risk_low:Q", scale=up), y2="risk_high:Q"),
        base.mark_line(strokeWidth=1.5).encode(
            y=alt.Y("risk:Q", scale=up, title="Risk: share of them answered wrongly"), order="threshold:Q"
        ),
        base.mark_point(filled=True, size=25, opacity=1).encode(y="risk:Q", tooltip=seen),
    ]
    return alt.vconcat(alt.layer(*layers).properties(width=270, height=270))


def _highest(rows: pd.DataFrame) -> float:
    """The highest risk, or end of an interval where there is one."""
    highest = float(rows[["risk", "risk_high"]].max().max())
    return highest if highest > _LEAST_RISK else _LEAST_RISK  # so too where no risk is known
