"""The steps of one trajectory as tables and charts, and sentences for readers who do not see a chart."""

from collections.abc import Callable, Iterable

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from prmcal.dashboard.formats import number
from prmcal.db.charts import BLUE, GREY, INK, UNIT, Layers, Series, curves, legend, on_dark
from prmcal.db.queries.trajectories import MEDIAN
from prmcal.steps import split_steps

# The column of the DataFrame, the colour and the dashes of the line, by the name in the legend.
_SERIES: dict[str, tuple[str, str, list[int]]] = {
    "score before": ("reward", GREY, [6, 3]),
    "score after": ("calibrated", BLUE, [1, 0]),
    "right": ("success", INK, [2, 3]),
}
_HEIGHT = 300


def rewards_chart(table: pd.DataFrame) -> Layers:
    """Draw rewards with their band, and success rates with their intervals, along the steps of a :func:`step_table`."""
    band, rated = table.dropna(subset=["band_low", "band_high"]), table.dropna(subset=["success"])
    last_step, title = int(table["step"].max()), "Score" if rated.empty else "Score, share that is right"
    axis = alt.Axis(values=list(range(last_step + 1)), format="d")
    scale = alt.Scale(domain=[0, max(last_step, 1)], nice=False)
    x = alt.X("step:Q", title="Step (0: question only)", scale=scale, axis=axis)
    value, low, lowest = (alt.Y(f"{name}:Q", scale=UNIT, title=title) for name in ("value", "low", "band_low"))
    area = alt.Chart(band).mark_area(color=BLUE, opacity=0.2).encode(x=x, y=lowest, y2="band_high:Q")
    rules = alt.Chart(rated).mark_rule(color=INK, strokeWidth=2).encode(x=x, y=low, y2="high:Q")
    names = [name for name, (column, *_) in _SERIES.items() if table[column].notna().any()] or [*_SERIES][:1]
    rows = pd.concat([table[["step"]].assign(series=name, value=table[_SERIES[name][0]]) for name in names])
    colours, dashes = [_SERIES[name][1] for name in names], [_SERIES[name][2] for name in names]
    style = Series(names, colours, dashes, ["circle"] * len(names))
    tooltip = [alt.Tooltip("series:N"), alt.Tooltip("step:Q", format="d"), alt.Tooltip("value:Q", format=".3f")]
    base = alt.Chart(rows.dropna(subset=["value"])).encode(x=x)
    lines = curves(base, value, style, legend(), point=60, tooltip=tooltip)
    return alt.layer(*([] if band.empty else [area]), rules, *lines).properties(height=_HEIGHT)


def step_texts(text: str, steps: int) -> list[str]:
    """Split the text of a trajectory at blank lines into its T steps.

    If the text has another number of parts than steps, the last step has all of the text and the others are empty.
    """
    texts: list[str] = list(split_steps(text))
    return texts if len(texts) == steps else [*[""] * (steps - 1), text][:steps]


def _exact_interval(successes: float, follow_ups: float) -> tuple[float, float]:
    """Return the exact 95% interval of a success probability, given k successes of n; NaN if nothing was measured."""
    from scipy.stats import binomtest

    if not follow_ups > 0:
        return np.nan, np.nan
    ends = binomtest(int(successes), int(follow_ups)).proportion_ci(method="exact")
    return ends.low, ends.high


def step_table(prefixes: pd.DataFrame, trajectory: int) -> pd.DataFrame:
    """Return one row for each prefix of a trajectory, with its rewards and its success rate.

    `prefixes` of a question are from :func:`prmcal.db.catalog.prefixes`. The columns are step, reward, over_long,
    successes, follow_ups, terminal; calibrated (the median), band_low and band_high (the lowest and the highest
    quantile); and success with its interval low and high, which has width 0 where the prefix contains the final answer.
    Unknown values are missing.
    """
    of_trajectory = prefixes[prefixes["trajectory"] == trajectory]
    columns = ["reward", "over_long", "successes", "follow_ups", "terminal"]
    table = of_trajectory.drop_duplicates("step").set_index("step")[columns]
    rewards = of_trajectory.dropna(subset=["level"]).pivot(index="step", columns="level", values="calibrated_reward")
    rewards = rewards.reindex(table.index)
    table["calibrated"] = rewards.get(MEDIAN, np.nan)
    several = len(rewards.columns) > 1
    table["band_low"] = rewards.min(axis=1) if several else np.nan
    table["band_high"] = rewards.max(axis=1) if several else np.nan
    successes = table["successes"].to_numpy(dtype=np.float64, na_value=np.nan)
    follow_ups = table["follow_ups"].to_numpy(dtype=np.float64, na_value=np.nan)
    table["success"] = successes / follow_ups
    certain = table["terminal"].eq(True).to_numpy(dtype=bool, na_value=False)
    ends = np.array([_exact_interval(*counts) for counts in zip(successes, follow_ups, strict=True)]).reshape(-1, 2)
    table[["low", "high"]] = np.where(certain[:, None], table[["success"]], ends)
    return table.reset_index()


def draw(chart: alt.Chart | Layers, finding: str, *, wide: bool = True) -> None:
    """Show a chart in the colours of the page, if `wide` as wide as its container.

    `finding` describes the chart to readers who do not see it: the finding with its numbers, not the axes.
    """
    coloured = (
        chart.configure_axis(labelColor=INK, titleColor=INK)
        .configure_legend(labelColor=INK)
        .configure_title(color=INK)
        .configure_mark(aria=False)  # the finding is read, and not hundreds of marks
    )
    if st.context.theme.type == "dark":
        coloured = on_dark(coloured)
    st.altair_chart(coloured, width="stretch" if wide else "content", alt=finding)


def extremes(title: str, names: Iterable[str], values: Iterable[float], text: Callable[[float], str] = number) -> str:
    """Return the lowest and the highest value with their names."""
    measured = pd.Series(list(values), list(names), dtype=float).dropna()
    if measured.empty:
        return f"{title} was not measured."
    low, high = measured.sort_values(kind="stable").iloc[[0, -1]].items()
    return f"{title}: from {text(low[1])} ({low[0]}) to {text(high[1])} ({high[0]})."


def bin_errors(bins: pd.DataFrame) -> str:
    """Return the bins of a reliability diagram with the lowest and the highest error."""
    filled = bins[bins["count"] > 0]
    names = (f"mean reward {number(reward)}" for reward in filled["mean_reward"])
    return extremes("Reward minus success rate", names, filled["mean_reward"] - filled["mean_success"])


def percent(share: float) -> str:
    """Format a share as a percentage, such as 96.0%."""
    return f"{number(100 * share, 1)}%"


def points(value: float, low: float, high: float) -> str:
    """Format a difference of shares and its interval in percentage points, with a sign."""
    sign = "+" if round(100 * value, 1) > 0 else ""
    return f"{sign}{number(100 * value, 1)} points [{number(100 * low, 1)}, {number(100 * high, 1)}]"
