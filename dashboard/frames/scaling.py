"""Accuracy against cost of best-of-n, with a fixed n and with IAS, for the C and beta that a reader selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from prmcal.dashboard.frames.cells import MEDIAN
from prmcal.db.queries.curves import unbeaten
from prmcal.db.queries.exact_curves import ExactCurves
from prmcal.db.statistics.spending import Curve

__all__ = [
    "FIXED",
    "curves_of",
    "levels_of",
    "points_by_difficulty",
    "selected_points",
    "with_frontier",
]

FIXED = "fixed n"
"""The name of the series in which all questions get the same n."""

_TARGETS = tuple(float(-np.expm1(-x)) for x in np.geomspace(0.05, 16, 32))
_COUNTS = (1, 4, 16, 64)
_COLUMNS = ["series", "cost", "cost_low", "cost_high", "accuracy", "accuracy_low", "accuracy_high", "n"]


def levels_of(pool: ExactCurves, grid: Sequence[str], level: float) -> dict[str, float]:
    """Return the calibrators that have rewards in a pool, in the order of the grid, with the level beta of each.

    This is the selected level if the calibrator has it, otherwise that of its point estimate.
    """
    levels = {}
    for calibrator in grid:
        own = [each for name, each in pool.rewards if name == calibrator]
        if own:
            levels[calibrator] = level if level in own else MEDIAN if MEDIAN in own else own[0]
    return levels


def selected_points(
    pool: ExactCurves, levels: Mapping[str, float], target: float, *, tokens: bool = False
) -> pd.DataFrame:
    """Return the accuracy and the cost of best-of-n + IAS for one C, one row for each calibrator at its level.

    Returns
    -------
    DataFrame
        Columns series (the calibrator), cost, cost_low, cost_high, accuracy, accuracy_low, accuracy_high, n
        (questions). The cost is in samples, or in generated tokens.
    """
    return _joined(_adaptive(pool, levels, [target], tokens=tokens))


def curves_of(pool: ExactCurves, levels: Mapping[str, float], *, tokens: bool = False) -> pd.DataFrame:
    """Return whole curves with the columns of :func:`selected_points`: best-of-n for every n, and with IAS for every C.

    The curve of a fixed n has the powers of 2 up to N, and N; it is called :data:`FIXED`.
    """
    counts = sorted({*(2**power for power in range(pool.most.bit_length())), pool.most})
    fixed = {FIXED: pool.fixed(counts, tokens=tokens)}
    return _joined(fixed | _adaptive(pool, levels, _TARGETS, tokens=tokens))


def points_by_difficulty(pool: ExactCurves, levels: Mapping[str, float], target: float) -> pd.DataFrame:
    """Return the rows of :func:`selected_points`, and those of a few fixed n, for each difficulty level.

    Returns
    -------
    DataFrame
        The columns of :func:`selected_points` and question_level. The series of a fixed n are called ``fixed n = 4``.
        Empty if no question has a difficulty level.
    """
    counts = [count for count in _COUNTS if count <= pool.most]
    parts = []
    for difficulty in sorted({int(each) for each in pool.question_levels if not np.isnan(each)}):
        fixed = {f"{FIXED} = {count}": pool.fixed([count], question_level=difficulty) for count in counts}
        adaptive = _adaptive(pool, levels, [target], question_level=difficulty)
        parts.append(_joined(fixed | adaptive).assign(question_level=difficulty))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _adaptive(
    pool: ExactCurves, levels: Mapping[str, float], targets: Sequence[float], **options: Any
) -> dict[str, Curve]:
    return {name: pool.adaptive(name, level, targets, **options) for name, level in levels.items()}


def _joined(curves: dict[str, Curve]) -> pd.DataFrame:
    parts = [_points(curve).assign(series=name) for name, curve in curves.items()]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=_COLUMNS)


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


def with_frontier(points: pd.DataFrame, curves: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Add a column `unbeaten`, which marks the points on the Pareto frontier.

    A point is on it if no competing point has a higher accuracy at no higher cost, or a lower cost at no lower
    accuracy.

    Parameters
    ----------
    points : DataFrame
        Columns cost, accuracy, and competes (whether the point can be on the frontier).
    curves : DataFrame
        The result of :func:`curves_of`. Of the curves, only :data:`FIXED` competes.
    """
    both = pd.concat([points, curves.assign(competes=curves["series"] == FIXED)], ignore_index=True)
    competing = both.loc[both["competes"], ["cost", "accuracy"]].round(9)  # pass@1 equals best-of-1
    marks = np.zeros(len(both), dtype=np.bool_)
    marks[competing.index] = unbeaten(competing["cost"], competing["accuracy"])
    return points.assign(unbeaten=marks[: len(points)]), curves.assign(unbeaten=marks[len(points) :])
