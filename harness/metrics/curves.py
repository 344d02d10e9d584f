"""Accuracy against budget for many settings at once, and the area under such a curve.

The area is the mean accuracy over budgets from 1 sample to N. Every doubling of the budget has the same weight, because
budgets are chosen over orders of magnitude:

    A = 1 / log N  *  integral from 1 to N of a(b) d log b.

Between two settings a(b) is the accuracy of mixing them: random questions are run with one setting and the others with
the other, so that accuracy is linear in the mean budget. Both ends are the same for every curve of a pool: one sample
of each question (pass@1), and all N samples of each. The area lies in [0, 1] and is on the scale of an accuracy.

A difference of areas shows which way of spending is better over the whole range, and not at each budget. It counts
samples and not tokens, it depends on N, and the shared ends make it smaller than the differences in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.db.statistics.budgets import Curve
from prmcal.db.statistics.intervals import (
    IntervalRule,
    bounded_interval,
    known_interval,
    percentile_interval,
)
from prmcal.harness.metrics.league import area_of
from prmcal.registry.strategies.scaling import adaptive_samples

__all__ = [
    "TARGETS",
    "adaptive_curve",
    "area_under",
    "fixed_curve",
]

TARGETS = tuple(float(-np.expm1(-x)) for x in (0.125, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0))
"""The eight values of C in the paper's ablation: log(1 - C) from -0.125 to -5."""


def fixed_curve(table: NDArray[np.float64], counts: Sequence[int] | NDArray[np.int64]) -> Curve:
    """Return the curve of best-of-n with the same n for every question.

    Parameters
    ----------
    table : ndarray of shape (questions, N)
        ``best_of_each(scores, correct, N)``.
    counts : sequence of int
        The values of n, each in [1, N].
    """
    samples = np.tile(np.asarray(counts, dtype=np.int64), (len(table), 1))
    return _curve(table, samples, known_interval)


def adaptive_curve(table: NDArray[np.float64], rewards: ArrayLike, targets: Sequence[float]) -> Curve:
    """Return the curve of best-of-n + IAS, with a point for every target probability C.

    Parameters
    ----------
    table : ndarray of shape (questions, N)
        ``best_of_each(scores, correct, N)``. It is the same for all calibrators and levels.
    rewards : array-like of shape (questions,) or (settings, questions)
        Calibrated rewards of the bare questions, for one setting (a calibrator and a level) or for several.
    targets : sequence of float
        Values of C in (0, 1).

    Returns
    -------
    Curve
        The points of the first setting in the order of `targets`, then those of the next setting.
    """
    settings = np.atleast_2d(np.asarray(rewards, dtype=np.float64)).T
    questions, most = table.shape
    samples = adaptive_samples(settings[..., None], targets, most)
    return _curve(table, samples.reshape(questions, -1), partial(bounded_interval, upper=float(most)))


def area_under(ends: Curve, points: Curve, maximum: int, bootstrap: Bootstrap) -> tuple[float, float, float]:
    """Return the area under the curve through `points` and its two `ends`, and its 95% interval.

    Parameters
    ----------
    ends : Curve
        ``fixed_curve(table, [1, N])``.
    points : Curve
        The points of one setting, in any order.
    maximum : int
        N, at least 2.
    bootstrap : Bootstrap
        How the questions are resampled. A single question has no interval (NaN).

    Raises
    ------
    ValueError
        If N is below 2, because there is no range of budgets.
    """
    if maximum < 2:
        raise ValueError(f"An area needs budgets from 1 to N with N of at least 2. Got N = {maximum}.")
    curve = ends.joined(points)
    (value,) = _areas(curve.cost[None], curve.accuracy[None], maximum)
    if curve.questions < 2:
        return float(value), float("nan"), float("nan")
    replicates = _areas(*curve.replicates(bootstrap), maximum)
    return float(value), *percentile_interval(replicates, curve.questions)


def _curve(table: NDArray[np.float64], samples: NDArray[Any], cost_rule: IntervalRule) -> Curve:
    accuracy = np.take_along_axis(table, samples - 1, axis=1)
    return Curve(samples.astype(np.float64), accuracy, cost_rule)


def _areas(samples: NDArray[np.float64], accuracy: NDArray[np.float64], maximum: int) -> NDArray[np.float64]:
    """Return the areas of curves with points in any order: (curves, points) gives (curves,)."""
    # Sort by cost, and by accuracy if costs are equal, so that the value does not depend on the given order.
    order = np.lexsort((accuracy, samples), axis=-1)
    cost = np.take_along_axis(samples, order, axis=-1)
    gain = np.take_along_axis(accuracy, order, axis=-1)
    return area_of(cost, gain, maximum)
