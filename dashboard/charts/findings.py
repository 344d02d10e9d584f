"""Drawing a chart, and sentences with the numbers that it shows. Readers who do not see it read or hear them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from prmcal.dashboard.formats import integer, number
from prmcal.db.charts import INK, Layers, on_dark
from prmcal.db.statistics.budgets import verdict

RELIABILITY = (
    "Points: success rate and mean reward of each bin, with 95% intervals. Below the dashed diagonal, rewards "
    "overestimate the success probability."
)
"""Explains a reliability diagram."""

BINS = "Bars: number of prefixes in each bin."
"""Explains the histogram below a reliability diagram."""

_SERIES = {
    "reward": "the PRM's reward",
    "calibrated": "the calibrated reward",
    "success": "the success rate",
}


def draw(chart: alt.Chart | Layers, finding: str) -> None:
    """Show a chart as wide as its container, in the colours of the page.

    `finding` says what it shows to readers who do not see it: the finding with its numbers, not the axes.
    """
    coloured = (
        chart.configure_axis(labelColor=INK, titleColor=INK)
        .configure_legend(labelColor=INK)
        .configure_title(color=INK)
        .configure_mark(aria=False)  # the finding is read, and not hundreds of marks
    )
    if st.context.theme.type == "dark":
        coloured = on_dark(coloured)
    st.altair_chart(coloured, width="stretch", alt=finding)


def extremes(
    title: str, names: Iterable[str], values: Iterable[float], text: Callable[[float], str] = number
) -> str:
    """Return the lowest and the highest value with their names."""
    known = pd.Series(list(values), list(names), dtype=float).dropna()
    if known.empty:
        return f"{title} was not measured."
    low, high = known.sort_values(kind="stable").iloc[[0, -1]].items()
    return f"{title}: from {text(low[1])} ({low[0]}) to {text(high[1])} ({high[0]})."


def bin_errors(bins: pd.DataFrame) -> str:
    """Return the bins of a reliability diagram with the lowest and the highest error."""
    filled = bins[bins["count"] > 0]
    names = (f"mean reward {number(each)}" for each in filled["mean_reward"])
    return extremes("Reward minus success rate", names, filled["mean_reward"] - filled["mean_success"])


def bin_counts(bins: pd.DataFrame) -> str:
    """Return the bins with the fewest and the most prefixes."""
    names = (f"rewards {number(each.lower, 2)} to {number(each.upper, 2)}" for each in bins.itertuples())
    return extremes("Prefixes", names, bins["count"], integer)


def percent(share: float) -> str:
    """Format a share as a percentage, such as 96.0%."""
    return f"{number(100 * share, 1)}%"


def points(value: float, low: float, high: float) -> str:
    """Format a difference of shares and its interval in percentage points, with a sign."""
    sign = "+" if round(100 * value, 1) > 0 else ""
    return f"{sign}{number(100 * value, 1)} points [{number(100 * low, 1)}, {number(100 * high, 1)}]"


def gain_of(row: Any, most: int) -> str:
    """Return what best-of-n + IAS buys with one calibrator, against a fixed n at equal cost.

    `row` is one of :func:`prmcal.dashboard.charts.curves.equal_cost_points`, and `most` is N.
    """
    return (
        f"{row.series} at C = {row.C:g}, β = {row.beta:g}: {percent(row.accuracy)} with {number(row.samples, 1)} of "
        f"{most} samples. A fixed n of the same cost has {percent(row.fixed)}: {verdict(row.low, row.high)}, "
        f"{points(row.difference, row.low, row.high)}."
    )


def along(table: pd.DataFrame, prefix: str = "", text: Callable[[float], str] = number) -> str:
    """Return what the series of a trajectory begin and end with. The prefix of budgets is ``budget_``.

    `table` is that of :func:`prmcal.dashboard.charts.trajectory.step_table`, or of `reward_table` there.
    """
    known = {title: table[f"{prefix}{column}"].dropna() for column, title in _SERIES.items()}
    parts = [
        f"{title} goes from {text(values.iloc[0])} to {text(values.iloc[-1])}"
        for title, values in known.items()
        if len(values)
    ]
    return f"Over {integer(table['step'].max())} steps, {', '.join(parts) or 'nothing was scored'}."
