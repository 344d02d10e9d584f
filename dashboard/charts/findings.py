"""Sentences that state what a chart shows, with numbers. Readers who do not see the chart read or hear them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from prmcal.dashboard.formats import integer, number
from prmcal.db.charts import INK, Layers, on_dark
from prmcal.db.metrics import Metric
from prmcal.db.statistics.budgets import verdict
from prmcal.db.statistics.paired import merit

RELIABILITY = (
    "Points: success rate and mean reward of each bin, with 95% intervals. Below the dashed diagonal, rewards "
    "overestimate the success probability."
)
"""Explains a reliability diagram."""

BINS = "Bars: number of prefixes in each bin."
"""Explains the histogram below a reliability diagram."""

_CLOSE = 0.005
_SERIES = {
    "reward": "the PRM's reward",
    "calibrated": "the calibrated reward",
    "success": "the success rate",
}


def draw(chart: alt.Chart | Layers, finding: str) -> None:
    """Show a chart as wide as its container, in the colours of the page.

    Parameters
    ----------
    chart : Chart
        Any chart of Altair.
    finding : str
        What the chart shows, for readers who do not see it: the finding with its numbers, not the axes.
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


def percent(share: float) -> str:
    """Format a share as a percentage, such as 96.0%."""
    return f"{number(100 * share, 1)}%"


def points(value: float, low: float, high: float) -> str:
    """Format a difference of shares and its interval in percentage points, with a sign."""
    sign = "+" if round(100 * value, 1) > 0 else ""
    return f"{sign}{number(100 * value, 1)} points [{number(100 * low, 1)}, {number(100 * high, 1)}]"


def gain_of(row: Any, most: int) -> str:
    """Return what best-of-n + IAS buys with one calibrator, against a fixed n at equal cost.

    Parameters
    ----------
    row : namedtuple
        A row of :func:`prmcal.dashboard.charts.curves.equal_cost_points`.
    most : int
        N, the largest number of samples.
    """
    return (
        f"{row.series} at C = {row.C:g}, β = {row.beta:g}: {percent(row.accuracy)} with {number(row.samples, 1)} of "
        f"{most} samples. A fixed n of the same cost has {percent(row.fixed)}: {verdict(row.low, row.high)}, "
        f"{points(row.difference, row.low, row.high)}."
    )


def _ends(rows: pd.DataFrame, column: str) -> tuple[Any, Any]:
    """Return the rows with the highest and with the lowest value of a column, as named tuples."""
    ordered = rows.sort_values(column, ascending=False, kind="stable")
    return next(ordered.itertuples()), next(ordered[::-1].itertuples())


def equal_cost(rows: pd.DataFrame, most: int) -> str:
    """Return the best and the worst gain at equal cost, and how many are gains and losses."""
    found = [verdict(row.low, row.high) for row in rows.itertuples()]
    ends = {row.series: row for row in _ends(rows, "difference")}
    counts = f"{found.count('gain')} of {len(found)} calibrators gain and {found.count('loss')} lose"
    return " ".join([*(gain_of(row, most) for row in ends.values()), f"{counts}."])


def highest_accuracy(adaptive: pd.DataFrame, fixed: pd.DataFrame, cost: str) -> str:
    """Return the calibrators with the highest and the lowest accuracy of best-of-n + IAS, and best-of-N.

    Parameters
    ----------
    adaptive : DataFrame
        The rows of one C and beta (:func:`prmcal.dashboard.charts.curves.selected`).
    fixed : DataFrame
        The points of a fixed n.
    cost : str
        The unit of the cost.
    """

    def at(row: Any) -> str:
        return f"{percent(row.accuracy)} with {number(row.cost, 1)} {cost}"

    said = []
    if len(adaptive):
        best, worst = _ends(adaptive, "accuracy")
        said.append(
            f"At C = {best.C:g}, best-of-n + IAS with {best.series} has the highest accuracy, {at(best)}."
        )
        said += [f"{worst.series} has the lowest, {at(worst)}."] if worst.series != best.series else []
    return " ".join([*said, f"The largest fixed n has {at(next(fixed[::-1].itertuples()))}."])


def hardest(rows: pd.DataFrame, column: str, title: str) -> str:
    """Return a value on the easiest and on the hardest questions, for the best and the worst on the hardest.

    Parameters
    ----------
    rows : DataFrame
        The rows of one C and beta: series, question_level and `column`.
    """
    table = rows.pivot(index="series", columns="question_level", values=column)
    easy, hard = table.columns.min(), table.columns.max()
    said = []
    for name in dict.fromkeys(row.Index for row in _ends(table, hard)):
        first, last = number(table.loc[name, easy], 2), number(table.loc[name, hard], 2)
        said.append(f"with {name} from {first} at difficulty {easy} to {last} at difficulty {hard}")
    return f"At C = {rows['C'].iloc[0]:g}, {title} goes {', and '.join(said)}."


def best_and_worst(metric: Metric, rows: pd.DataFrame, column: str = "calibrator") -> str:
    """Return which calibrators have the best and the worst value of a metric.

    Parameters
    ----------
    rows : DataFrame
        The name in `column`, and the column of the metric.
    """
    known = rows.dropna(subset=[metric.name])
    if known.empty:
        return f"{metric.title} was not measured."
    ranked = pd.DataFrame(
        {
            "name": known[column],
            "value": known[metric.name],
            "merit": merit(known[metric.name], metric.better or "near zero"),
        }
    )
    return _superlatives(*_ends(ranked, "merit"), f"the best {metric.title}", "the worst")


def risk_areas(areas: pd.DataFrame) -> str:
    """Return the smallest and the largest area under risk against coverage (columns calibrator and value)."""
    known = areas.dropna(subset=["value"]).rename(columns={"calibrator": "name"})
    if known.empty:
        return "The risk was not measured."
    largest, smallest = _ends(known, "value")
    return _superlatives(smallest, largest, "the smallest area under risk against coverage", "the largest")


def _superlatives(first: Any, last: Any, one: str, other: str) -> str:
    said = f"{first.name} has {one}, {number(first.value)}"
    return (
        f"{said}." if first.name == last.name else f"{said}; {last.name} has {other}, {number(last.value)}."
    )


def reliable(bins: pd.DataFrame) -> str:
    """Return how far rewards are from success rates, over all bins and in the worst bin."""
    filled = bins[bins["count"] > 0]
    if filled.empty:
        return "There are no prefixes."
    error = filled["mean_reward"] - filled["mean_success"]
    mean = float((error * filled["count"]).sum() / filled["count"].sum())
    worst = filled.loc[error.abs().idxmax()]
    return (
        f"{_direction(mean)}. The error is largest in the bin with mean reward {number(worst['mean_reward'])}, where "
        f"the success rate is {number(worst['mean_success'])}."
    )


def fullest(bins: pd.DataFrame) -> str:
    """Return which bin has the most prefixes, and how many."""
    total = bins["count"].sum()
    if not total:
        return "There are no prefixes."
    most = bins.loc[bins["count"].idxmax()]
    edges = f"{number(most['lower'], 2)} to {number(most['upper'], 2)}"
    return f"Most prefixes, {percent(most['count'] / total)} of {integer(total)}, have rewards from {edges}."


def overestimated(means: pd.DataFrame) -> str:
    """Return the mean signed error of each calibrator (columns calibrator and value)."""
    return " ".join(f"{row.calibrator}: {_direction(row.value).lower()}." for row in means.itertuples())


def _direction(error: float) -> str:
    if abs(error) < _CLOSE:
        return f"Rewards equal the success rates on average, up to {number(abs(error))}"
    way = "overestimate" if error > 0 else "underestimate"
    return f"Rewards {way} the success rates by {number(abs(error))} on average"


def covered(rows: pd.DataFrame) -> str:
    """Return the coverage of each calibrator that is closest to and farthest from its nominal value.

    Parameters
    ----------
    rows : DataFrame
        Columns calibrator, level, nominal, coverage.
    """
    apart = (rows["coverage"] - rows["nominal"]).abs()
    worst = apart.groupby(rows["calibrator"], sort=False).max().sort_values(kind="stable")

    def said(name: str) -> str:
        row = rows.loc[apart[rows["calibrator"] == name].idxmax()]
        return f"at most {number(worst[name], 2)} ({percent(row['coverage'])} in place of {percent(row['nominal'])})"

    first, last = str(worst.index[0]), str(worst.index[-1])
    closest = f"The coverage of {first} is closest to nominal: it is off by {said(first)}"
    return f"{closest}." if first == last else f"{closest}. {last} is off by {said(last)}."


def compared(metrics: Iterable[Any]) -> str:
    """Return in how many metrics two cells differ significantly, and the differences of these."""
    listed = list(metrics)
    real = [each for each in listed if each.real]
    said = f"{len(real)} of {len(listed)} differences are significant"
    if not real:
        return f"{said}."
    return f"{said}: " + ", ".join(f"{each.metric} {number(each.difference)}" for each in real) + "."


def stepwise(table: pd.DataFrame) -> str:
    """Return the rewards and the success rates at the first and the last step of a trajectory.

    Parameters
    ----------
    table : DataFrame
        The result of :func:`prmcal.dashboard.charts.trajectory.step_table`, or of
        :func:`prmcal.dashboard.charts.trajectory.reward_table`.
    """
    parts = [
        f"{title} goes from {number(first)} to {number(last)}"
        for title, first, last in _first_and_last(table, "")
    ]
    steps = integer(table["step"].max())
    return f"Over {steps} steps, {', '.join(parts)}." if parts else "Nothing was scored."


def budgeted(table: pd.DataFrame, target: float) -> str:
    """Return the samples that C needs, at the first and the last step of a trajectory (as for :func:`stepwise`)."""
    parts = [
        f"from {integer(first)} to {integer(last)} by {title}"
        for title, first, last in _first_and_last(table, "budget_")
    ]
    return f"The samples needed for C = {target:g} go {', '.join(parts)}." if parts else "Nothing was scored."


def _first_and_last(table: pd.DataFrame, prefix: str) -> list[tuple[str, float, float]]:
    """Return the title, the first and the last known value of each series that has values."""
    known = {title: table[f"{prefix}{column}"].dropna() for column, title in _SERIES.items()}
    return [(title, values.iloc[0], values.iloc[-1]) for title, values in known.items() if len(values)]
