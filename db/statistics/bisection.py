"""Bisection of many intervals that tests a condition only where its outcome is not known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["bisected"]


def bisected(
    holds: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
    low: float,
    high: float,
    halvings: int,
    guess: NDArray[np.float64],
    accuracy: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Halve intervals around the points where a condition ceases to hold.

    The ends are those of plain bisection, to the last digit: the half is kept at whose middle the outcome changes. But
    a condition that holds at a point also holds at all lower ones, so a middle is tested only if it lies between
    points that were tested before. The first tests are close to a guess, so that few others are needed if it is good.

    Parameters
    ----------
    holds : callable
        Whether the condition of each interval holds at a point: (intervals,) gives (intervals,). It holds below one
        point and not above.
    low, high : float
        The ends of all intervals.
    halvings : int
    guess : ndarray of shape (intervals,), float64
        Where each condition ceases to hold, perhaps. A bad guess costs time only.
    accuracy : float
        The distance from the guess of the first tests.

    Returns
    -------
    tuple of two ndarrays of shape (intervals,), float64
        The lower and the upper ends of the last halves.
    """
    intervals = [_Interval(low, high, halvings) for _ in guess]
    for points in (guess - accuracy, guess + accuracy):
        _test(intervals, holds, np.clip(points, low, high))
    while sum(each.halve() for each in intervals):
        _test(intervals, holds, np.array([each.middle for each in intervals]))
    return np.array([each.low for each in intervals]), np.array([each.high for each in intervals])


class _Interval:
    """An interval that is halved, and the points next to the change of its condition that were tested."""

    def __init__(self, low: float, high: float, halvings: int) -> None:
        self.low, self.high, self.left = low, high, halvings
        self.holds_at, self.fails_at = -np.inf, np.inf

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    def halve(self) -> bool:
        """Halve as often as the outcome is known, and return whether a test at the middle is needed."""
        low, high, left = self.low, self.high, self.left
        while left:
            middle = (low + high) / 2
            if middle <= self.holds_at:
                low = middle
            elif middle >= self.fails_at:
                high = middle
            else:
                break
            left -= 1
        self.low, self.high, self.left = low, high, left
        return left > 0


def _test(
    intervals: list[_Interval],
    holds: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
    points: NDArray[np.float64],
) -> None:
    for each, point, found in zip(intervals, points.tolist(), holds(points).tolist(), strict=True):
        if found:
            each.holds_at = max(each.holds_at, point)
        else:
            each.fails_at = min(each.fails_at, point)
