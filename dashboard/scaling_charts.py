"""Charts of scaling: accuracy against cost and by difficulty, risk against coverage."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from dashboard.charts import UNIT, Layers, hints, ink, legend

__all__ = ["FIXED", "difficulty_chart", "frontier_chart", "risk_chart"]

FIXED = "fixed n"
"""What the same n for every question is called."""

_HEIGHT, _SMALL_HEIGHT = 440, 380
_BAND = 0.14
_NOTE = 0.05  # the height of a note, as an accuracy


def frontier_chart(
    curves: pd.DataFrame, points: pd.DataFrame, title: str, colours: alt.Scale, shape: str
) -> Layers:
    """Draw accuracy against cost: curves with their bands, single strategies, and the frontier that none beats.

    Parameters
    ----------
    curves : DataFrame
        Columns series, cost, accuracy, accuracy_low, accuracy_high; those of a fixed n are called "fixed n".
    points : DataFrame
        Columns series (its colour), name, note (written beside it; may be empty), cost, accuracy, low, high, unbeaten.
    title : str
        Of the axis of costs.
    colours : Scale
    shape : str
        That of the LLM.
    """
    across = alt.X("cost:Q", scale=alt.Scale(type="log", base=2), title=title, axis=alt.Axis(format="~s"))
    colour = alt.Color("series:N", scale=colours, sort=None, legend=legend(3, list(colours.domain)))
    up = alt.Y("accuracy:Q", scale=UNIT, title="Accuracy")
    lines = alt.Chart(curves).encode(x=across, color=colour)
    dashed = alt.condition(alt.datum.series == FIXED, alt.value([4, 4]), alt.value([1, 0]))
    shown = alt.Chart(points).encode(
        x=across, color=colour, tooltip=hints(["name"], ["cost", "accuracy", "low", "high"], None)
    )
    unbeaten = points[points["unbeaten"]].sort_values(["cost", "accuracy"])
    layers: list[Any] = [
        lines.mark_area(opacity=_BAND).encode(y=alt.Y("accuracy_low:Q", scale=UNIT), y2="accuracy_high:Q"),
        lines.mark_line(strokeWidth=1.5).encode(y=up, strokeDash=dashed),
        alt.Chart(unbeaten)
        .mark_line(color=ink(), strokeWidth=5, opacity=0.2, interpolate="step-after")
        .encode(x=across, y=up),
        shown.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", scale=UNIT), y2="high:Q"),
        shown.mark_point(filled=True, size=70, opacity=1, shape=shape).encode(y=up),
    ]
    middle = float((points["cost"].min() * points["cost"].max()) ** 0.5)
    noted = _stacked(points[points["note"] != ""])
    for left in (True, False):
        beside = alt.Chart(noted[(noted["cost"] > middle) == left]).encode(x=across, color=colour)
        text = beside.mark_text(align="right" if left else "left", dx=-7 if left else 7, fontSize=10)
        layers.append(text.encode(y="note_at:Q", text="note:N"))
    return alt.layer(*layers).properties(height=_HEIGHT)


def _stacked(noted: pd.DataFrame) -> pd.DataFrame:
    """Where notes stand: below the points of their cost, one below the other."""
    together = noted.sort_values("accuracy", ascending=False).groupby("cost")["accuracy"]
    return noted.assign(note_at=together.transform("min") - _NOTE * (together.cumcount() + 1))


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
        x=alt.X("question_level:O", title="Difficulty, 1 (easy) to 5", axis=alt.Axis(labelAngle=0)),
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
    named = base.properties(data=ends).mark_text(align="right", dx=-7, dy=-8, fontSize=10)
    layers.append(named.encode(y=f"{column}:Q", text="series:N"))
    return alt.layer(*layers).properties(height=_SMALL_HEIGHT)


def risk_chart(rows: pd.DataFrame, colours: alt.Scale) -> alt.VConcatChart:
    """Draw the share of wrong answers against the share of questions that are answered, square.

    `rows` has the columns calibrator, threshold, coverage, risk, risk_low, risk_high and questions.
    """
    base = alt.Chart(rows).encode(
        x=alt.X("coverage:Q", scale=UNIT, title="Coverage: share of questions answered"),
        color=alt.Color("calibrator:N", scale=colours, sort=None, legend=legend(2)),
    )
    seen = hints(["calibrator"], ["threshold", "coverage", "risk", "risk_low", "risk_high"], "questions")
    layers = [
        base.mark_area(opacity=_BAND).encode(y=alt.Y("risk_low:Q", scale=UNIT), y2="risk_high:Q"),
        base.mark_line(strokeWidth=1.5).encode(
            y=alt.Y("risk:Q", scale=UNIT, title="Risk: share of them answered wrongly"), order="threshold:Q"
        ),
        base.mark_point(filled=True, size=25, opacity=1).encode(y="risk:Q", tooltip=seen),
    ]
    return alt.vconcat(alt.layer(*layers).properties(width=270, height=270))
