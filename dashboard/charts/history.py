"""The values of a cell over versions and time."""

from __future__ import annotations

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.style import GREY, Layers, ink, legend, tooltips

__all__ = ["CURRENT", "NOT_CURRENT", "history_chart"]

CURRENT, NOT_CURRENT = "current", "not current"
"""The two values of the column `state` of :func:`history_chart`."""

_HEIGHT = 280


def history_chart(rows: pd.DataFrame, title: str) -> Layers:
    """Draw the values of a cell with their 95% intervals, by the day of their measurement.

    Values of the same day, such as replicates with other seeds, stand beside each other.

    Parameters
    ----------
    rows : DataFrame
        Columns day, place (the position among the values of the day), variant, state (:data:`CURRENT` or
        :data:`NOT_CURRENT`), value, low, high and questions.
    title : str
        The title of the axis of values.
    """
    states = [CURRENT, NOT_CURRENT]
    shown = legend(lines=False) if set(rows["state"]) == set(states) else None
    base = alt.Chart(rows).encode(
        x=alt.X("day:O", title="Measured", axis=alt.Axis(labelAngle=0, grid=False), sort=None),
        xOffset=alt.XOffset("place:O", sort=None),
        color=alt.Color(
            "state:N", scale=alt.Scale(domain=states, range=[ink(), GREY]), sort=None, legend=shown
        ),
        tooltip=tooltips(["day", "variant", "state"], ["value", "low", "high"], "questions"),
    )
    y = alt.Y("value:Q", title=f"{title} (95% interval)", scale=alt.Scale(zero=False))
    marks = alt.Scale(domain=states, range=["circle", "diamond"])
    layers: Layers = alt.layer(
        base.mark_rule(strokeWidth=2).encode(
            y=alt.Y("low:Q", title=None, scale=alt.Scale(zero=False)), y2="high:Q"
        ),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            y=y, shape=alt.Shape("state:N", scale=marks, sort=None, legend=shown)
        ),
        base.mark_text(align="left", dx=8, fontSize=11).encode(y=y, text="variant:N", color=alt.value(ink())),
    ).properties(height=_HEIGHT)
    return layers
