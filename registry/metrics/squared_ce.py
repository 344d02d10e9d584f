"""The squared calibration error without bias."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.measured import UnderWeights
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.ranges import Count
from prmcal.registry.contracts.rows import PrefixRows
from prmcal.registry.metrics.bins import BinTotals, bin_totals
from prmcal.resamples import weighted_totals

__all__ = ["SquaredCE"]


class SquaredCE(Metric):
    """The mean of (E[r - p])^2 over bins of equal width, weighted by their prefixes, without bias.

    The square of a mean error is estimated by products of errors of two different questions, whose noise is
    independent: with the sum S_q of r - y over the m_q prefixes of a question q in a bin with m prefixes,

        ((sum_q S_q)^2 - sum_q S_q^2) / (m^2 - sum_q m_q^2).

    So neither the noise of the follow-ups nor that of prefixes of one question adds to it, and a calibrated predictor
    has 0 on average. The value can be below 0 and is not clipped. A bin with prefixes of a single question is left out.

    Parameters
    ----------
    bins : int, default 10
        The number of bins over [0, 1].

    Notes
    -----
    Estimates of Kumar, Liang and Ma (2019), "Verified uncertainty calibration", section 4, subtract y(1 - y)/(m - 1)
    from the square of a bin. This is for labels of 0 and 1: for success rates of 8 follow-ups it is eight times too
    much, and it leaves the noise that prefixes of one question share.
    """

    citation = "after Kumar, Liang and Ma (2019), arXiv:1909.10155"
    title, better = "Squared CE", "lower"
    description = (
        "Squared calibration error over bins of equal width, from pairs of different questions, so that noise adds "
        "nothing; it can fall below 0 by chance."
    )

    def __init__(self, bins: Count = 10) -> None:
        self.bins = bins

    def measure(self, rows: PrefixRows) -> UnderWeights | None:
        """Return the error under weights of the questions, or None if no bin has prefixes of two questions."""
        totals = bin_totals(rows, self.bins)
        if not (np.count_nonzero(totals.counts, axis=0) > 1).any():
            return None
        return UnderWeights(lambda weights: _by_pairs(weights, totals))


def _by_pairs(weights: NDArray[np.float64], totals: BinTotals) -> NDArray[np.float64]:
    """Return the error under each row of weights. A question that was drawn twice is not a pair with itself."""
    total, mass = totals.under(weights)
    squares_of_each = np.concatenate([totals.errors**2, totals.counts**2], axis=1)
    own, own_mass = np.split(weighted_totals(weights**2, squares_of_each), 2, axis=1)
    pairs = mass**2 - own_mass
    # Counts are whole numbers, so the difference is exact.
    known = pairs > 0.5
    squares = np.divide(total**2 - own, pairs, out=np.zeros_like(pairs), where=known)
    share = np.where(known, mass, 0.0)
    found: NDArray[np.float64] = (squares * share).sum(axis=1) / np.maximum(share.sum(axis=1), 1.0)
    return found
