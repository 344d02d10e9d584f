"""The chart of one trajectory: rewards along its steps beside the Monte Carlo truth, and the budgets they imply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

__all__ = ["budgets_chart", "rewards_chart"]

_UNIT = alt.Scale(domain=[0, 1], nice=False)
_SERIES = {
    "reward of the PRM": ("reward", [6, 3]),
    "calibrated (median)": ("calibrated", [1, 0]),
    "success, Monte Carlo": ("success", [2, 3]),
}
_HEIGHT, _BUDGET_HEIGHT = 420, 260


def rewards_chart(table: pd.DataFrame, colours: Sequence[str], mark: str) -> alt.LayerChart | alt.FacetChart:
    """Draw rewards, with their band, and success rates, with their intervals, along the steps.

    Parameters
    ----------
    table : DataFrame
        As :func:`prmcal.dashboard.text.steps.step_table` makes it.
    colours : sequence of 3 str
        Of the PRM's reward, of the calibrated reward and of the success rate.
    mark : str
        The shape of the LLM.
    """
    band, truth = table.dropna(subset=["band_low", "band_high"]), table.dropna(subset=["success"])
    across = _across(table)
    area = alt.Chart(band).mark_area(color=colours[1], opacity=0.2)
    intervals = alt.Chart(truth).mark_rule(color=colours[2], strokeWidth=2)
    return alt.layer(
        area.encode(x=across, y=_share("band_low"), y2="band_high:Q"),
        intervals.encode(x=across, y=_share("low"), y2="high:Q"),
        *_lines(table, colours, mark, _share("value"), alt.Legend(orient="top", title=None, columns=1)),
    ).properties(height=_HEIGHT)


def budgets_chart(
    table: pd.DataFrame, colours: Sequence[str], mark: str, target: float
) -> alt.LayerChart | alt.FacetChart:
    """Draw the samples that one right answer needs with probability `target`, by the same three."""
    samples = alt.Y(
        "samples:Q",
        scale=alt.Scale(type="log"),
        title=f"Samples for C = {target:g}",
        axis=alt.Axis(tickCount=4, format="~s"),
    )
    return alt.layer(*_lines(table, colours, mark, samples, None)).properties(height=_BUDGET_HEIGHT)


def _lines(
    table: pd.DataFrame, colours: Sequence[str], mark: str, up: alt.Y, legend: alt.Legend | None
) -> list[alt.Chart]:
    shown = [title for title, (name, _) in _SERIES.items() if table[name].notna().any()]
    rows = pd.concat([_rows(table, title) for title in shown] or [_rows(table, next(iter(_SERIES)))])
    given = dict(zip(_SERIES, colours, strict=True))
    colour = alt.Scale(domain=shown, range=[given[title] for title in shown])
    dash = alt.Scale(domain=shown, range=[_SERIES[title][1] for title in shown])
    hints: list[Any] = [alt.Tooltip("step:Q"), alt.Tooltip("series:N")]
    hints += [alt.Tooltip("value:Q", format=".3f"), alt.Tooltip("samples:Q", format=",.0f")]
    base = alt.Chart(rows.dropna(subset=["value"])).encode(
        x=_across(table),
        y=up,
        tooltip=hints,
        color=alt.Color("series:N", scale=colour, sort=None, legend=legend),
    )
    lines = base.mark_line(strokeWidth=2)
    return [
        lines.encode(strokeDash=alt.StrokeDash("series:N", scale=dash, sort=None, legend=legend)),
        base.mark_point(shape=mark, filled=True, size=60, opacity=1),
    ]


def _rows(table: pd.DataFrame, title: str) -> pd.DataFrame:
    name = _SERIES[title][0]
    samples = table[f"budget_{name}"]
    return pd.DataFrame({"step": table["step"], "series": title, "value": table[name], "samples": samples})


def _across(table: pd.DataFrame) -> alt.X:
    last = int(table["step"].max())
    return alt.X(
        "step:Q",
        title="Steps of the prefix (0: the bare question)",
        scale=alt.Scale(domain=[0, max(last, 1)], nice=False),
        axis=alt.Axis(values=list(range(last + 1)), format="d"),
    )


def _share(column: str) -> alt.Y:
    return alt.Y(f"{column}:Q", scale=_UNIT, title="Reward, success rate")
