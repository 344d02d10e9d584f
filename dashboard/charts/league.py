"""Curves of strategies: accuracy against the mean number of samples."""

from __future__ import annotations

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.style import Layers, Series, legend, tooltips

__all__ = ["league_chart"]

_HEIGHT = 400
_BAND = 0.12
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
        base.mark_area(opacity=_BAND).encode(y=alt.Y("accuracy_low:Q", scale=scale), y2="accuracy_high:Q"),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=series.dash("entry", shown)),
        base.mark_point(filled=True, size=30, opacity=1).encode(
            y=y,
            shape=series.shape("entry", shown),
            tooltip=tooltips(["entry"], numbers, "questions"),
        ),
    ).properties(height=_HEIGHT)
    return layers
