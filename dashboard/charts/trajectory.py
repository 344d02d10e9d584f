"""Charts of one trajectory: rewards and success rates along its steps, and the budgets that they imply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from prmcal.dashboard.charts.style import UNIT, Layers, legend

__all__ = ["budgets_chart", "rewards_chart"]

# The column of the DataFrame and the dashes of the line, by the name in the legend.
_SERIES = {
    "PRM reward": ("reward", [6, 3]),
    "calibrated reward (median)": ("calibrated", [1, 0]),
    "success rate (Monte Carlo)": ("success", [2, 3]),
}
_HEIGHT, _BUDGET_HEIGHT = 420, 260


def rewards_chart(table: pd.DataFrame, colours: Sequence[str], shape: str) -> Layers:
    """Draw rewards with their band, and success rates with their intervals, along the steps.

    Parameters
    ----------
    table : DataFrame
        The result of :func:`prmcal.dashboard.frames.steps.step_table`, or of
        :func:`prmcal.dashboard.frames.solving.reward_table`.
    colours : sequence of 3 str
        The colours of the PRM's reward, of the calibrated reward and of the success rate.
    shape : str
        The shape of the LLM.
    """
    band, measured = table.dropna(subset=["band_low", "band_high"]), table.dropna(subset=["success"])
    x = _steps(table)
    area = alt.Chart(band).mark_area(color=colours[1], opacity=0.2)
    intervals = alt.Chart(measured).mark_rule(color=colours[2], strokeWidth=2)
    title = "Reward" if measured.empty else "Reward, success rate"
    bands = [] if band.empty else [area.encode(x=x, y=_probability("band_low", title), y2="band_high:Q")]
    return alt.layer(
        *bands,
        intervals.encode(x=x, y=_probability("low", title), y2="high:Q"),
        *_lines(table, colours, shape, _probability("value", title), legend()),
    ).properties(height=_HEIGHT)


def budgets_chart(table: pd.DataFrame, colours: Sequence[str], shape: str, target: float) -> Layers:
    """Draw the samples needed for target probability `target`, computed from the series of :func:`rewards_chart`."""
    samples = alt.Y(
        "samples:Q",
        scale=alt.Scale(type="log"),
        title=f"Samples for C = {target:g}",
        axis=alt.Axis(tickCount=4, format="~s"),
    )
    return alt.layer(*_lines(table, colours, shape, samples, None)).properties(height=_BUDGET_HEIGHT)


def _lines(
    table: pd.DataFrame, colours: Sequence[str], shape: str, y: alt.Y, shown_legend: alt.Legend | None
) -> list[alt.Chart]:
    shown = [title for title, (name, _) in _SERIES.items() if table[name].notna().any()]
    rows = pd.concat([_rows(table, title) for title in shown] or [_rows(table, next(iter(_SERIES)))])
    given = dict(zip(_SERIES, colours, strict=True))
    colour = alt.Scale(domain=shown, range=[given[title] for title in shown])
    dash = alt.Scale(domain=shown, range=[_SERIES[title][1] for title in shown])
    tooltips: list[Any] = [alt.Tooltip("step:Q"), alt.Tooltip("series:N")]
    tooltips += [alt.Tooltip("value:Q", format=".3f"), alt.Tooltip("samples:Q", format=",.0f")]
    base = alt.Chart(rows.dropna(subset=["value"])).encode(
        x=_steps(table),
        y=y,
        tooltip=tooltips,
        color=alt.Color("series:N", scale=colour, sort=None, legend=shown_legend),
    )
    lines = base.mark_line(strokeWidth=2)
    return [
        lines.encode(strokeDash=alt.StrokeDash("series:N", scale=dash, sort=None, legend=shown_legend)),
        base.mark_point(shape=shape, filled=True, size=60, opacity=1),
    ]


def _rows(table: pd.DataFrame, title: str) -> pd.DataFrame:
    name = _SERIES[title][0]
    samples = table[f"budget_{name}"]
    return pd.DataFrame({"step": table["step"], "series": title, "value": table[name], "samples": samples})


def _steps(table: pd.DataFrame) -> alt.X:
    last = int(table["step"].max())
    return alt.X(
        "step:Q",
        title="Steps in the prefix (0: question only)",
        scale=alt.Scale(domain=[0, max(last, 1)], nice=False),
        axis=alt.Axis(values=list(range(last + 1)), format="d"),
    )


def _probability(column: str, title: str) -> alt.Y:
    return alt.Y(f"{column}:Q", scale=UNIT, title=title)
