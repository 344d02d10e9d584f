"""Sums over questions that are weighted by a bootstrap."""

import numpy as np

from prmcal.arrays import Floats
from prmcal.remembered import reuse_last

_BITS = 52
"""The bits of the sums of one part. A float64 has 53."""


def weighted_totals(weights: Floats, totals: Floats) -> Floats:
    """Add up totals of questions under weights.

    The order of additions in a matrix product depends on the processor and the number of threads. Rounding errors
    depend on the order. So every total is divided into two parts of few digits. Under weights that are whole numbers,
    as in a bootstrap, the sums of each part are exact in any order. Under other weights they are as exact as usual.

    The weights, of shape (resamples, questions), say how often each question counts, and are not negative. The totals
    have the shape (questions, ...), and the result (resamples, ...).
    """
    columns = totals.reshape(len(totals), -1)
    largest_total = _largest_total(weights)
    with np.errstate(invalid="ignore"):  # What is not finite is refused by those who check a result.
        high = _rounded(columns, largest_total)
        low = columns - high
        sums = weights @ high
        if low.any():
            sums += weights @ _rounded(low, largest_total)
    return np.asarray(sums.reshape(len(weights), *totals.shape[1:]), dtype=np.float64)


def _rounded(columns: Floats, largest_total: float) -> Floats:
    """Round each column so that sums of at most `largest_total` values have 52 bits."""
    largest = np.abs(columns).max(axis=0, initial=0.0)
    exponent = np.frexp(largest)[1] + np.frexp(largest_total)[1] - _BITS
    unit = np.ldexp(1.0, np.maximum(exponent, -1000))
    rounded: Floats = np.rint(columns / unit) * unit
    return rounded


@reuse_last
def _largest_total(weights: Floats) -> float:
    """Return the largest sum of the weights of a resample."""
    return float((weights @ np.ones(weights.shape[1])).max(initial=0.0))
