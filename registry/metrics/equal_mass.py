"""The errors of rewards in bins of equal mass, for many resamples at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.rows import PrefixRows

__all__ = ["EqualMass"]

_RESAMPLES = 500
"""Resamples that are processed at once, at most."""
_ELEMENTS = 8_000_000
"""Sums at the ends of groups that are kept at once. They take 128 MB."""
_ROWS = 32
"""Rows whose weights are multiplied at once. With the resamples they fit into a processor's cache."""


class EqualMass:
    """Rows sorted by their rewards. Their mass and errors are added up to every cut between bins.

    Rows with equal rewards are a group, which a cut divides in proportion.
    """

    def __init__(self, rows: PrefixRows, bins: int) -> None:
        self._cuts = np.arange(bins + 1) / bins
        order = np.argsort(rows.reward, kind="stable")
        self._question = rows.question_index[order]
        error = (rows.reward - rows.success_rate)[order]
        self._mass_and_error = np.stack([np.ones(len(error)), error], axis=1)[:, :, None]
        self._group = np.cumsum(np.diff(rows.reward[order], prepend=-1.0) > 0)

    def __call__(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of r - y over each bin, divided by the mass. Its shape is (resamples, bins)."""
        errors = np.empty((len(weights), len(self._cuts) - 1))
        ends = self._group[-1] + 1
        together = max(min(len(weights), _RESAMPLES, _ELEMENTS // ends), 1)
        room = np.zeros((ends, 2, together))
        for first in range(0, len(weights), together):
            own = np.ascontiguousarray(weights[first : first + together].T)
            at_ends = room[:, :, : own.shape[1]]
            self._add_up(own, at_ends)
            at_cuts = _interpolated(at_ends[:, 0], at_ends[:, 1], self._cuts)
            errors[first : first + together] = (np.diff(at_cuts, axis=0) / at_ends[-1, 0]).T
        return errors

    def _add_up(self, weights: NDArray[np.float64], at_ends: NDArray[np.float64]) -> None:
        """Write the mass and the error of all rows up to the end of each group into (groups + 1, 2, resamples)."""
        running = np.zeros(at_ends.shape[1:])
        for first in range(0, len(self._question), _ROWS):
            rows = slice(first, first + _ROWS)
            added = weights[self._question[rows]][:, None] * self._mass_and_error[rows]
            for group, row in zip(self._group[rows].tolist(), added, strict=True):
                running = np.add(running, row, out=at_ends[group])  # The last row of a group remains.


def _interpolated(
    x: NDArray[np.float64], y: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the function through the points of each column at shares of its largest x.

    Parameters
    ----------
    x, y : ndarray of shape (points, columns)
        Ascending x from 0. Of points with equal x, y is equal too.
    shares : ndarray of shape (shares,)

    Returns
    -------
    ndarray of shape (shares, columns)
    """
    column = np.arange(x.shape[1])
    wanted = shares[:, None] * x[-1]
    # Halve the points between the last one that is not above the wanted x, and one that is, or the end.
    left, right = np.zeros(wanted.shape, dtype=np.intp), np.full(wanted.shape, len(x))
    while np.any(right - left > 1):
        middle = (left + right) // 2
        reached = x[middle, column] <= wanted
        left, right = np.where(reached, middle, left), np.where(reached, right, middle)
    above = np.minimum(left + 1, len(x) - 1)
    width = x[above, column] - x[left, column]
    rise = y[above, column] - y[left, column]
    slope = np.divide(rise, width, out=np.zeros_like(width), where=width > 0)
    found: NDArray[np.float64] = slope * (wanted - x[left, column]) + y[left, column]
    return found
