"""The errors of rewards in bins of equal mass, for many resamples at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.rows import PrefixRows
from prmcal.resamples import weighted_totals

__all__ = ["EqualMass"]

_ROWS = 32
"""Rows in a block, about: it has all rows of the groups that begin in it. A larger group is a block of its own."""


class EqualMass:
    """Rows sorted by their rewards, whose mass and errors are added up to every cut between bins.

    Rows with equal rewards are a group, which a cut divides in proportion. Groups are taken together in blocks. Mass
    and errors are first added up to each block, and then only within the blocks in which a resample has a cut.
    """

    def __init__(self, rows: PrefixRows, bins: int) -> None:
        self._inner_cuts = np.arange(1, bins) / bins
        order = np.argsort(rows.reward, kind="stable")
        self._question = rows.question_index[order]
        self._error = (rows.reward - rows.success_rate)[order]
        new_group = np.diff(rows.reward[order], prepend=-1.0) > 0
        self._group = np.cumsum(new_group)
        group_starts = np.flatnonzero(new_group)
        large = np.diff(group_starts, append=len(order)) >= _ROWS
        starts = group_starts[(np.diff(group_starts // _ROWS, prepend=-1) > 0) | large]
        self._blocks = [slice(*each) for each in pairwise([*starts.tolist(), len(order)])]
        block = np.searchsorted(starts, np.arange(len(order)), side="right")
        questions, ends = len(rows.question_ids), len(starts) + 1
        each = [
            np.bincount(self._question * ends + block, weights=values, minlength=questions * ends)
            for values in (np.ones(len(order)), self._error)
        ]
        self._up_to_blocks = np.stack(each, axis=1).reshape(questions, ends, 2).cumsum(axis=1)

    def __call__(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of r - y over each bin, divided by the mass. Its shape is (resamples, bins)."""
        up_to_blocks = weighted_totals(weights, self._up_to_blocks)
        mass, error = np.moveaxis(up_to_blocks, 2, 0)
        wanted = self._inner_cuts * mass[:, -1:]
        block = np.count_nonzero(mass[:, 1:, None] <= wanted[:, None], axis=1)
        by_block = np.argsort(block, axis=None, kind="stable")
        ends_of_blocks = np.bincount(block.ravel(), minlength=len(self._blocks)).cumsum()[:-1]
        at_cuts = np.empty(wanted.shape)
        for number, places in enumerate(np.split(by_block, ends_of_blocks)):
            if not len(places):
                continue
            rows, resample, cut = self._blocks[number], *np.divmod(places, wanted.shape[1])
            both = up_to_blocks[resample, number : number + 2]
            if self._group[rows.start] < self._group[rows.stop - 1]:  # It has several groups.
                own = weights.take(resample, axis=0).take(self._question[rows], axis=1)
                both = both[:, :1] + weighted_totals(own, self._up_to_groups(rows))
            x, y = np.moveaxis(both, 2, 0)
            at_cuts[resample, cut] = _interpolated(x, y, wanted[resample, cut])
        ends = np.concatenate([np.zeros((len(weights), 1)), at_cuts, error[:, -1:]], axis=1)
        return np.asarray(np.diff(ends, axis=1) / mass[:, -1:], dtype=np.float64)

    def _up_to_groups(self, rows: slice) -> NDArray[np.float64]:
        """Return what each row of a block adds to mass and error up to each group: (rows, groups + 1, 2)."""
        group = self._group[rows]
        adds = (group[:, None] < np.arange(group[0], group[-1] + 2)).astype(np.float64)
        return np.stack([adds, adds * self._error[rows, None]], axis=2)


def _interpolated(
    x: NDArray[np.float64], y: NDArray[np.float64], wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the function through the points of each row of x and y, of shape (rows, points), at the wanted x.

    x does not descend. The wanted x, of shape (rows,), is at least the first one and below the last one.
    """
    row = np.arange(len(x))
    above = (x <= wanted[:, None]).sum(axis=1)
    left, right = x[row, above - 1], x[row, above]
    share = (wanted - left) / (right - left)
    low, high = y[row, above - 1], y[row, above]
    return np.asarray(low + share * (high - low), dtype=np.float64)
