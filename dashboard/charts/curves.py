"""Accuracy against cost of best-of-n, with a fixed n and with IAS; and the cells of a leaderboard in charts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from prmcal.arrays import Floats
from prmcal.db.metrics import SETTING, MetricColumn
from prmcal.db.queries.curves import ExactCurves
from prmcal.db.queries.trajectories import MEDIAN
from prmcal.db.statistics.budgets import Curve, frontier, more_accurate
from prmcal.db.statistics.paired import merit

FIXED = "fixed n"
"""The name of the series in which all questions get the same n."""

_THOUSANDTHS = (*range(20, 900, 20), *range(900, 990, 10), *range(990, 1000))
TARGETS = tuple(round(target / 1000, 3) for target in _THOUSANDTHS)
"""The target probabilities C that a reader can select: 63 values from .02 to .999, dense near 1."""
_ALIKE = 0.03
"""The largest difference of accuracy between curves that are drawn as one."""


def levels_of(pool: ExactCurves) -> list[float]:
    """Return the levels beta that a reader can select, in ascending order: all that some calibrator has."""
    return sorted({level for _, level in pool.rewards}) or [MEDIAN]


def used_levels(pool: ExactCurves, grid: Sequence[str], level: float) -> dict[str, float]:
    """Return the calibrators that have rewards in a pool, in the order of the grid, with the level beta of each.

    This is the selected level if the calibrator has it, otherwise the level of its point estimate.
    """
    levels = {}
    for calibrator in grid:
        own_levels = [beta for name, beta in pool.rewards if name == calibrator]
        if own_levels:
            levels[calibrator] = level if level in own_levels else MEDIAN if MEDIAN in own_levels else own_levels[0]
    return levels


def adaptive_points(pool: ExactCurves, grid: Sequence[str], level: float) -> pd.DataFrame:
    """Return the cost and the accuracy of best-of-n + IAS for every C.

    The columns are C, beta (the level that the calibrator uses), series (the calibrator), cost, cost_low, cost_high,
    accuracy, accuracy_low, accuracy_high and n (questions). The cost is in samples.
    """
    return _joined(
        _points(pool.adaptive(name, beta, TARGETS)).assign(C=TARGETS, beta=beta, series=name)
        for name, beta in used_levels(pool, grid, level).items()
    )


def fixed_points(pool: ExactCurves) -> pd.DataFrame:
    """Return the same of best-of-n with a fixed n: the powers of 2 up to N, and N. The series is :data:`FIXED`."""
    return _points(pool.fixed(_counts(pool))).assign(series=FIXED)


def equal_cost_points(pool: ExactCurves, grid: Sequence[str], level: float) -> pd.DataFrame:
    """Return best-of-n + IAS against the fixed n with the same mean number of samples, for every C.

    The columns are C, beta, series, samples, fixed (the accuracy of the fixed n), accuracy, difference, low and high
    (its 95% interval). See :func:`prmcal.db.statistics.budgets.at_equal_cost`.
    """
    points = _joined(
        pd.DataFrame(pool.at_equal_cost(name, beta, TARGETS)).assign(C=TARGETS, beta=beta, series=name)
        for name, beta in used_levels(pool, grid, level).items()
    )
    return points if points.empty else points.assign(accuracy=points["fixed"] + points["difference"])


def gains_at_once(pool: ExactCurves, grid: Sequence[str], target: float, level: float) -> pd.DataFrame:
    """Return the rows of :func:`equal_cost_points` for one C, with intervals that hold for all calibrators at once.

    So the interval of the best one holds, although its result was the reason to choose it.
    """
    points = equal_cost_points(pool, grid, level)
    rows = points[points["C"] == target]
    if len(rows) < 2:
        return rows
    half = rows["series"].map(pool.at_once(used_levels(pool, grid, level), target))
    return rows.assign(low=rows["difference"] - half, high=rows["difference"] + half)


def frontier_points(
    pool: ExactCurves, grid: Sequence[str], strategies: pd.DataFrame, values: pd.DataFrame, target: float, level: float
) -> pd.DataFrame:
    """Return the points on the Pareto frontier: cost, accuracy, cell_id (None without a measured strategy) and series.

    Strategies, the fixed n of :func:`fixed_points`, and best-of-n + IAS with the selected C and beta compete.
    :func:`prmcal.db.statistics.budgets.frontier` has the definition. `strategies` has the columns cell_id, cost and
    accuracy, and `values` the accuracy on each question, as :func:`prmcal.db.catalog.question_accuracies` returns it. A
    strategy without a value for every question does not compete.
    """
    accuracy_table = values.reindex(pool.question_ids)
    rivals = strategies[strategies["cell_id"].isin(accuracy_table.columns[accuracy_table.notna().all()])]
    fixed = pool.fixed(_counts(pool))
    levels = used_levels(pool, grid, level)
    curves = [fixed, *(pool.adaptive(*key, [target]) for key in levels.items())]
    points = pd.DataFrame(
        {
            "cost": np.concatenate([rivals["cost"], *(curve.cost for curve in curves)]),
            "accuracy": np.concatenate([rivals["accuracy"], *(curve.accuracy for curve in curves)]),
            "cell_id": [*rivals["cell_id"], *[None] * (len(fixed.cost) + len(levels))],
            "series": [*[None] * len(rivals), *[FIXED] * len(fixed.cost), *levels],
        }
    )
    accuracies = [accuracy_table[list(rivals["cell_id"])].to_numpy(np.float64), *(curve.accuracies for curve in curves)]
    better = more_accurate(np.concatenate(accuracies, axis=1))
    return points[frontier(points["cost"], points["accuracy"], better)]


def _counts(pool: ExactCurves) -> list[int]:
    return sorted({*(2**power for power in range(pool.most.bit_length())), pool.most})


def _joined(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    filled = list(tables)
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=["C", "beta", "series"])


def _points(curve: Curve) -> pd.DataFrame:
    return pd.DataFrame(curve.columns("cost")).assign(n=curve.questions)


def coinciding(points: pd.DataFrame, order: Sequence[str]) -> dict[str, list[str]]:
    """Return which curves coincide: each drawn curve, in an order, with the equal curves that are not drawn.

    `points` are as in :func:`prmcal.dashboard.charts.drawn.league_chart`. Curves coincide if their accuracies differ by
    at most 0.03 at every number of samples that both have.
    """
    curves = {}
    for name in order:
        rows = points[points["entry"] == name].sort_values("samples")
        curves[name] = np.log2(rows["samples"].to_numpy(np.float64)), rows["accuracy"].to_numpy(np.float64)
    bands: dict[str, list[str]] = {}
    for name, curve in curves.items():
        twin = next((drawn for drawn in bands if _apart(curves[drawn], curve) <= _ALIKE), None)
        if twin is None:
            bands[name] = []
        else:
            bands[twin].append(name)
    return bands


def _apart(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> float:
    """Return the largest difference of two curves. Between their points, the curves are straight."""
    low, high = max(first[0][0], second[0][0]), min(first[0][-1], second[0][-1])
    samples = np.union1d(first[0], second[0])
    samples = samples[(samples >= low) & (samples <= high)]
    if not len(samples):
        return float("inf")
    return float(np.abs(np.interp(samples, *first) - np.interp(samples, *second)).max())


def rows_of_group(table: pd.DataFrame, group: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of one group: one data set, LLM and PRM."""
    for kind in SETTING:
        table = table[table[kind] == group[kind]]
    return table


def parameter_texts(target: float | None, level: float | None) -> list[str]:
    """Return the parameters of a strategy, such as ``["C=0.99", "β=0.1"]``, without missing ones."""
    return [f"{name}={value:g}" for name, value in (("C", target), ("β", level)) if not pd.isna(value)]


def likest(cells: pd.DataFrame, coordinates: Mapping[str, Any], metric: MetricColumn) -> pd.DataFrame:
    """Return cells in an order: first cells that share most of some `coordinates`, and then the best by a metric.

    Missing coordinates are equal.
    """
    shared = pd.Series(0, cells.index)
    for kind, name in coordinates.items():
        shared += cells[kind].isna() if pd.isna(name) else cells[kind] == name
    value = merit(cells[metric.name], metric.better or "lower")
    order = pd.DataFrame({"shared": shared, "value": value}, cells.index)
    return cells.loc[order.sort_values(["shared", "value"], ascending=False, kind="stable").index]
