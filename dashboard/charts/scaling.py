"""Charts of scaling: accuracy and cost by difficulty, and risk against coverage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.following import AT_LEVEL, AT_SELECTION, following
from prmcal.dashboard.charts.style import UNIT, Layers, Series, legend, tooltips

__all__ = ["difficulty_chart", "risk_chart"]

_HEIGHT = 350
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
        The tables of :func:`prmcal.dashboard.frames.scaling.difficulty_points`, the second only if it is drawn.
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
    return following(alt.layer(*layers).properties(height=_HEIGHT), signals)


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
    return following(alt.layer(*layers).properties(height=_HEIGHT), signals)


def _highest_risk(rows: pd.DataFrame) -> float:
    """Return the highest risk or end of an interval, at least 0.05; NaN where no risk is known counts as 0."""
    highest = _highest(rows, "risk")
    return highest if highest > _LEAST_RISK else _LEAST_RISK
