"""Accuracy against cost of best-of-n, with a fixed n and with IAS, for all C and beta that a reader can select.

The tables have a row for every selection, so that a chart can filter them in the browser. `target` and `level` are the
places of C in :data:`TARGETS` and of beta in :func:`levels_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from prmcal.dashboard.charts.cells import MEDIAN
from prmcal.db.queries.curves import ExactCurves
from prmcal.db.statistics.budgets import Curve, frontier, more_accurate

FIXED = "fixed n"
"""The name of the series in which all questions get the same n."""

TARGET, LEVEL = "C", "beta"
"""The names of what a reader selects: parameters of the address, sliders, and signals in charts."""

TARGETS = tuple(
    round(thousandths / 1000, 3)
    for thousandths in (*range(20, 900, 20), *range(900, 990, 10), *range(990, 1000))
)
"""The target probabilities C that a reader can select: 63 values from .02 to .999, dense near 1."""

_COUNTS = (1, 4, 16, 64)


def levels_of(pool: ExactCurves) -> list[float]:
    """Return the levels beta that a reader can select, in ascending order: all that some calibrator has."""
    return sorted({level for _, level in pool.rewards}) or [MEDIAN]


def used_levels(pool: ExactCurves, grid: Sequence[str], level: float) -> dict[str, float]:
    """Return the calibrators that have rewards in a pool, in the order of the grid, with the level beta of each.

    This is the selected level if the calibrator has it, otherwise that of its point estimate.
    """
    levels = {}
    for calibrator in grid:
        own = [each for name, each in pool.rewards if name == calibrator]
        if own:
            levels[calibrator] = level if level in own else MEDIAN if MEDIAN in own else own[0]
    return levels


def selected(table: pd.DataFrame, pool: ExactCurves, target: float, level: float) -> pd.DataFrame:
    """Return the rows of a table for one C and beta."""
    place = (table["target"] == TARGETS.index(target)) & (table["level"] == levels_of(pool).index(level))
    return table[place].reset_index(drop=True)


def adaptive_points(pool: ExactCurves, grid: Sequence[str], *, tokens: bool = False) -> pd.DataFrame:
    """Return the cost and the accuracy of best-of-n + IAS for every C and beta.

    Returns
    -------
    DataFrame
        Columns target, level, C, beta (the one that the calibrator uses), series (the calibrator), cost, cost_low,
        cost_high, accuracy, accuracy_low, accuracy_high, n (questions). The cost is in samples, or in generated tokens.
    """
    return _for_every_level(
        pool,
        grid,
        lambda calibrator, level: _points(pool.adaptive(calibrator, level, TARGETS, tokens=tokens)),
    )


def fixed_points(pool: ExactCurves, *, tokens: bool = False) -> pd.DataFrame:
    """Return the same of best-of-n with a fixed n: the powers of 2 up to N, and N. The series is :data:`FIXED`."""
    return _points(pool.fixed(_counts(pool), tokens=tokens)).assign(series=FIXED)


def equal_cost_points(pool: ExactCurves, grid: Sequence[str]) -> pd.DataFrame:
    """Return best-of-n + IAS against the fixed n with the same mean number of samples, for every C and beta.

    Returns
    -------
    DataFrame
        Columns target, level, C, beta, series, samples, fixed (the accuracy of the fixed n), accuracy, difference, low
        and high (its 95% interval), n. See :func:`prmcal.db.statistics.budgets.at_equal_cost`.
    """

    def compare(calibrator: str, level: float) -> pd.DataFrame:
        found = pd.DataFrame(pool.at_equal_cost(calibrator, level, TARGETS))
        return found.assign(accuracy=found["fixed"] + found["difference"], n=len(pool.question_ids))

    return _for_every_level(pool, grid, compare)


def difficulty_points(pool: ExactCurves, grid: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the accuracy and the cost of each difficulty level.

    Returns
    -------
    adaptive : DataFrame
        The columns of :func:`adaptive_points` and question_level.
    fixed : DataFrame
        The same for a few fixed n, without target, level, C and beta. The series are called ``fixed n = 4``.
        Both are empty if no question has a difficulty level.
    """
    counts = [count for count in _COUNTS if count <= pool.most]
    adaptive, fixed = [], []
    for difficulty in sorted({int(each) for each in pool.question_levels if not np.isnan(each)}):

        def of_level(calibrator: str, level: float, place: int = difficulty) -> pd.DataFrame:
            return _points(pool.adaptive(calibrator, level, TARGETS, question_level=place))

        names = [f"{FIXED} = {count}" for count in counts]
        points = _points(pool.fixed(counts, question_level=difficulty)).assign(series=names)
        adaptive.append(_for_every_level(pool, grid, of_level).assign(question_level=difficulty))
        fixed.append(points.assign(question_level=difficulty))
    if not fixed:
        return pd.DataFrame(), pd.DataFrame()
    return pd.concat(adaptive, ignore_index=True), pd.concat(fixed, ignore_index=True)


def frontier_points(
    pool: ExactCurves,
    grid: Sequence[str],
    measured: pd.DataFrame,
    values: pd.DataFrame,
    *,
    tokens: bool = False,
) -> pd.DataFrame:
    """Return the points on the Pareto frontier for every C and beta.

    Strategies, the fixed n of :func:`fixed_points`, and best-of-n + IAS with the selected C and beta compete.
    :func:`prmcal.db.statistics.budgets.frontier` has the definition.

    Parameters
    ----------
    measured : DataFrame
        Columns cell_id, cost and accuracy of the strategies that compete.
    values : DataFrame
        The accuracy on each question, as :func:`prmcal.db.catalog.question_accuracies` returns it. A strategy
        without a value for every question does not compete.

    Returns
    -------
    DataFrame
        Columns target, level, cost, accuracy, cell_id (None if it is no measured strategy) and series.
    """
    known = values.reindex(pool.question_ids)
    rivals = measured[measured["cell_id"].isin(known.columns[known.notna().all()])]
    fixed = pool.fixed(_counts(pool), tokens=tokens)
    levels, keys = levels_of(pool), list(pool.rewards)
    curves = [pool.adaptive(*key, TARGETS, tokens=tokens) for key in keys]
    better = more_accurate(
        np.concatenate(
            [
                known[list(rivals["cell_id"])].to_numpy(np.float64),
                *(each.accuracies for each in (fixed, *curves)),
            ],
            axis=1,
        )
    )
    cost = np.concatenate([rivals["cost"].to_numpy(np.float64), *(each.cost for each in (fixed, *curves))])
    accuracy = np.concatenate(
        [rivals["accuracy"].to_numpy(np.float64), *(each.accuracy for each in (fixed, *curves))]
    )
    always = len(rivals) + len(fixed.cost)
    names = [*zip(rivals["cell_id"], [None] * len(rivals), strict=True), *[(None, FIXED)] * len(fixed.cost)]
    parts = []
    for level_place, level in enumerate(levels):
        used = used_levels(pool, grid, level)
        starts = [always + len(TARGETS) * keys.index(each) for each in used.items()]
        labels = [*names, *((None, calibrator) for calibrator in used)]
        for target_place in range(len(TARGETS)):
            rows = np.array([*range(always), *(start + target_place for start in starts)])
            marks = frontier(cost[rows], accuracy[rows], better[np.ix_(rows, rows)])
            kept = np.flatnonzero(marks)
            parts += [
                (target_place, level_place, cost[rows[each]], accuracy[rows[each]], *labels[each])
                for each in kept
            ]
    return pd.DataFrame(parts, columns=["target", "level", "cost", "accuracy", "cell_id", "series"])


def _counts(pool: ExactCurves) -> list[int]:
    return sorted({*(2**power for power in range(pool.most.bit_length())), pool.most})


def _for_every_level(pool: ExactCurves, grid: Sequence[str], compute: Any) -> pd.DataFrame:
    """Return the rows of `compute(calibrator, level)`, one for each C, for all selections of beta."""
    found = {key: compute(*key) for key in pool.rewards}
    parts = [
        found[calibrator, own].assign(
            target=range(len(TARGETS)), level=place, C=TARGETS, beta=own, series=calibrator
        )
        for place, level in enumerate(levels_of(pool))
        for calibrator, own in used_levels(pool, grid, level).items()
    ]
    return (
        pd.concat(parts, ignore_index=True)
        if parts
        else pd.DataFrame({"target": [], "level": [], "series": []})
    )


def _points(curve: Curve) -> pd.DataFrame:
    cost, accuracy = curve.intervals()
    return pd.DataFrame(
        {
            "cost": curve.cost,
            "cost_low": cost[:, 0],
            "cost_high": cost[:, 1],
            "accuracy": curve.accuracy,
            "accuracy_low": accuracy[:, 0],
            "accuracy_high": accuracy[:, 1],
            "n": curve.questions,
        }
    )
