"""The Pareto frontier of accuracy against cost, on which only significant differences count."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

__all__ = ["frontier", "more_accurate"]

_TAIL = 0.025
# With fewer questions, the smallest p value of the sign test is above .05.
_FEWEST = 6
_DIGITS = 9
_ROUNDING = 1e-12


def more_accurate(accuracies: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points are significantly more accurate than which others.

    The test is the paired t test over questions, two-sided at the level .05, without a correction for the number of
    pairs.

    Parameters
    ----------
    accuracies : ndarray of shape (questions, points), float64

    Returns
    -------
    ndarray of shape (points, points), bool
        In row i and column j: whether i is significantly more accurate than j. All are False for fewer than 6
        questions, since no pattern of so few signs is significant.
    """
    questions, points = accuracies.shape
    if questions < _FEWEST:
        return np.zeros((points, points), dtype=np.bool_)
    mean = accuracies.mean(axis=0)
    apart = accuracies - mean
    products = apart.T @ apart / (questions - 1)
    variances = np.diag(products)
    variance = np.maximum(variances[:, None] + variances[None, :] - 2 * products, 0)
    difference = mean[:, None] - mean[None, :]
    enough = -stdtrit(questions - 1, _TAIL) * np.sqrt(variance / questions)
    real: NDArray[np.bool_] = difference > np.maximum(enough, _ROUNDING)
    return real


def frontier(costs: ArrayLike, accuracy: ArrayLike, better: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which points are on the frontier.

    The points are read from the lowest cost to the highest, and at equal cost from the most accurate to the least. The
    first is on the frontier. Any other is on it if it is significantly more accurate than every point that is already
    on it. So each step of the frontier is a real gain, and noise in the third digit adds no points. Points with the
    same cost and the same accuracy are on the frontier together.

    Parameters
    ----------
    costs, accuracy : array-like of shape (points,)
        The mean cost and the mean accuracy of each point.
    better : ndarray of shape (points, points)
        The result of :func:`more_accurate`.
    """
    cost = np.round(np.asarray(costs, dtype=np.float64), _DIGITS)
    gain = np.round(np.asarray(accuracy, dtype=np.float64), _DIGITS)
    kept: list[int] = []
    for point in np.lexsort((-gain, cost)):
        twin = any(cost[point] == cost[each] and gain[point] == gain[each] for each in kept)
        if twin or better[point, kept].all():
            kept.append(int(point))
    marks = np.zeros(len(cost), dtype=np.bool_)
    marks[kept] = True
    return marks
