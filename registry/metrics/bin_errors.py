"""Calibration errors: sums of absolute mean errors over bins of the rewards.

Equal-width bins are [0, 1/B), [1/B, 2/B), ..., [1 - 1/B, 1]: a reward of exactly 1 belongs to the last bin. ECE weights
its bins by their rows, AverageCE and AdaptiveCE do not. The definitions are those of "Know What You Don't Know" (Park
et al., 2025), section 5.

The errors of a perfect predictor are not 0, because noise increases every absolute value. The plain metrics have the
published values, whose estimate and interval both contain this increase. The corrected ones remove it from both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.measured import AbsoluteSum
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.ranges import Count
from prmcal.registry.contracts.rows import PrefixRows
from prmcal.registry.metrics.bins import bin_totals
from prmcal.registry.metrics.equal_mass import EqualMass
from prmcal.remembered import kept

__all__ = [
    "ECE",
    "AdaptiveCE",
    "AverageCE",
    "BinErrors",
    "CorrectedAdaptiveCE",
    "CorrectedAverageCE",
    "CorrectedECE",
]

Errors = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From weights of shape (resamples, questions) to signed shares of bins, of shape (resamples, bins)."""


class BinErrors(Metric):
    """The base of calibration errors over bins.

    Parameters
    ----------
    bins : int, default 10
        The number of bins over [0, 1].

    Attributes
    ----------
    corrected : bool
        Whether the noise of the bins is removed.
    """

    better = "lower"
    corrected: ClassVar[bool] = False

    def __init__(self, bins: Count = 10) -> None:
        self.bins = bins

    @abstractmethod
    def errors_of(self, rows: PrefixRows) -> Errors:
        """Return the signed share of each bin under weights of the questions."""

    def measure(self, rows: PrefixRows) -> AbsoluteSum:
        """Return the sum of the absolute values of :meth:`errors_of`."""
        return AbsoluteSum(self.errors_of(rows), self.corrected)


class ECE(BinErrors):
    """Expected calibration error: the mean of ``abs(mean r - mean y)`` over equal-width bins, weighted by their rows.

    Parameters
    ----------
    bins : int, default 10
        The number of bins over [0, 1].
    """

    citation = "Naeini et al. (2015), AAAI"
    title = "ECE"
    description = "Calibration error over bins of equal width, weighted by count. Noise increases it."

    def errors_of(self, rows: PrefixRows) -> Errors:
        """Return the sum of r - y over each bin, divided by the number of all rows."""
        return _weighted(rows, self.bins)


class CorrectedECE(ECE):
    """ECE without the noise of the bins, an estimate of the error over all questions."""

    title, corrected = "ECE, corrected", True
    description = "ECE without the increase by noise. A value below 0 is shown as 0."


class AverageCE(BinErrors):
    """Average calibration error: the unweighted mean of ``abs(mean r - mean y)`` over non-empty equal-width bins.

    Parameters
    ----------
    bins : int, default 10
        The number of bins over [0, 1].
    """

    title = "Average CE"
    description = (
        "Calibration error in the unweighted mean over the bins that are not empty. Noise increases it."
    )

    def errors_of(self, rows: PrefixRows) -> Errors:
        """Return the mean of r - y over each bin, divided by the number of bins that are not empty."""
        return _unweighted(rows, self.bins)


class CorrectedAverageCE(AverageCE):
    """Average CE without the noise of the bins, an estimate of the error over all questions."""

    title, corrected = "Average CE, corrected", True
    description = "Average CE without the increase by noise. A value below 0 is shown as 0."


class AdaptiveCE(BinErrors):
    """Adaptive calibration error: the unweighted mean of ``abs(mean r - mean y)`` over B bins of equal mass.

    The rows are sorted by reward, and their mass is cut into B equal parts. If a cut lies within a group of rows with
    equal rewards, each of these rows is divided between the bins in the same proportion. So the value does not depend
    on the order of the rows, and it is defined for any number of rows.

    Parameters
    ----------
    bins : int, default 10
        The number of bins.
    """

    title = "Adaptive CE"
    description = "Calibration error over bins of equal mass. Noise increases it."

    def errors_of(self, rows: PrefixRows) -> Errors:
        """Return the sum of r - y over each bin, divided by the mass of all rows."""
        return _equal_mass(rows, self.bins)


class CorrectedAdaptiveCE(AdaptiveCE):
    """Adaptive CE without the noise of the bins, an estimate of the error over all questions."""

    title, corrected = "Adaptive CE, corrected", True
    description = "Adaptive CE without the increase by noise. A value below 0 is shown as 0."


def _weighted(rows: PrefixRows, bins: int) -> Errors:
    totals = bin_totals(rows, bins)

    def shares(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        errors, counts = totals.under(weights)
        return np.asarray(errors / counts.sum(axis=1, keepdims=True))

    return shares


def _unweighted(rows: PrefixRows, bins: int) -> Errors:
    totals = bin_totals(rows, bins)

    def shares(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        errors, counts = totals.under(weights)
        # An empty bin has the error 0, so it may be divided by any number.
        return np.asarray(errors / np.maximum(counts, 1) / np.count_nonzero(counts, axis=1, keepdims=True))

    return shares


@lru_cache(maxsize=2)  # The plain and the corrected metric need the same errors.
def _equal_mass(rows: PrefixRows, bins: int) -> Errors:
    return kept(EqualMass(rows, bins))
