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
        self._mass_up_to_blocks, self._error_up_to_blocks = (
            np.bincount(self._question * ends + block, weights=values, minlength=questions * ends)
            .reshape(questions, ends)
            .cumsum(axis=1)
            for values in (np.ones(len(order)), self._error)
        )

    def __call__(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of r - y over each bin, divided by the mass. Its shape is (resamples, bins)."""
        # Resamples are in the last axis, along which processors work fast. Whole numbers have exact sums in any order.
        mass = (weights @ self._mass_up_to_blocks).T.copy()
        error = weighted_totals(weights, self._error_up_to_blocks).T.copy()
        wanted = self._inner_cuts[:, None] * mass[-1]
        block = (mass[1:, None] <= wanted).sum(axis=0)
        by_block = np.argsort(block, axis=None, kind="stable")
        ends_of_blocks = np.bincount(block.ravel(), minlength=len(self._blocks)).cumsum()[:-1]
        at_ends = np.zeros((len(wanted) + 2, len(weights)))
        at_ends[-1] = error[-1]
        counts, questions = weights.ravel(), weights.shape[1]
        for number, places in enumerate(np.split(by_block, ends_of_blocks)):
            if not len(places):
                continue
            rows, cut, resample = self._blocks[number], *np.divmod(places, len(weights))
            group = self._group[rows] - self._group[rows.start]
            if group[-1] > 0:  # It has several groups.
                masses = counts.take(self._question[rows, None] + resample * questions)
                errors = masses * self._error[rows, None]
            else:
                group = group[:1]
                masses, errors = (
                    np.diff(each[number : number + 2, resample], axis=0) for each in (mass, error)
                )
            below = _share_below(masses, group, wanted[cut, resample] - mass[number, resample])
            at_ends[cut + 1, resample] = error[number, resample] + (errors * below).sum(axis=0)
        return np.asarray((np.diff(at_ends, axis=0) / mass[-1]).T, dtype=np.float64)


def _share_below(
    masses: NDArray[np.float64], group: NDArray[np.intp], wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of each row that lies below a cut, of the shape of `masses`.

    Parameters
    ----------
    masses : ndarray of shape (rows, resamples), float64
        The mass of each row: whole numbers.
    group : ndarray of shape (rows,), int
        The group of each row, from 0, ascending.
    wanted : ndarray of shape (resamples,), float64
        The mass below the cut, at least 0 and less than the mass of all rows.
    """
    up_to_groups = (group < np.arange(group[-1] + 2)[:, None]).astype(np.float64) @ masses
    whole = (up_to_groups[1:] <= wanted).sum(axis=0)  # Groups that lie below the cut entirely.
    resample = np.arange(len(wanted))
    left, right = up_to_groups[whole, resample], up_to_groups[whole + 1, resample]
    groups_below = whole + (wanted - left) / (right - left)
    share: NDArray[np.float64] = np.clip(groups_below - group[:, None], 0.0, 1.0)
    return share
