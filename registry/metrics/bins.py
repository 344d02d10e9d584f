"""Bins of equal width over [0, 1], and the errors of questions in them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.rows import PrefixRows
from prmcal.remembered import kept
from prmcal.resamples import weighted_totals

__all__ = ["BinTotals", "bin_totals", "equal_width"]

# Rewards that are computed have rounding errors: .7 - .4 is 2.999...96 / 10, which belongs to the bin from .3.
_ROUNDING = 1e-12


def equal_width(rewards: NDArray[np.float64], bins: int) -> NDArray[np.intp]:
    """Return the bin of each reward, from 0. A bin contains its lower edge, and the last bin also contains 1."""
    bounds = np.arange(1, bins) / bins - _ROUNDING
    return np.searchsorted(bounds, rewards, side="right")


class BinTotals:
    """The sum of r - y and the number of rows of each question in each bin.

    Attributes
    ----------
    errors, counts : ndarray of shape (questions, bins), float64
    under : callable
        From weights of shape (resamples, questions) to the total errors and counts of the bins, both of shape
        (resamples, bins).
    """

    def __init__(self, rows: PrefixRows, bins: int) -> None:
        questions = len(rows.question_ids)
        cell = rows.question_index * bins + equal_width(rows.reward, bins)
        self.errors, self.counts = (
            np.bincount(cell, weights=each, minlength=questions * bins)
            .reshape(questions, bins)
            .astype(np.float64)
            for each in (rows.reward - rows.success_rate, np.ones(len(rows.reward)))
        )
        self.under = kept(self._under)

    def _under(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        both = weighted_totals(weights, np.concatenate([self.errors, self.counts], axis=1))
        errors, counts = np.split(both, 2, axis=1)
        return errors, counts


@lru_cache(maxsize=4)  # Several metrics need the same totals.
def bin_totals(rows: PrefixRows, bins: int) -> BinTotals:
    """Return the totals of the rows, which are computed once for all metrics with as many bins."""
    return BinTotals(rows, bins)
