"""Calibration errors in bins: ECE, average calibration error and adaptive calibration error."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Floats
from prmcal.registry.contracts.metric import AbsoluteSum, Metric, PrefixRows
from prmcal.registry.contracts.plugin import Count
from prmcal.remembered import reuse_last
from prmcal.resamples import weighted_totals

# Differences of decimals have rounding errors: .7 - .4 is 2.999...96 / 10, which belongs to the bin that begins at .3.
_ROUNDING = 1e-12
Errors = Callable[[Floats], Floats]
"""From weights of shape (resamples, questions) to signed shares of bins, of shape (resamples, bins)."""


def bin_edges(bins: int, lower: float = 0.0, upper: float = 1.0) -> Floats:
    """Return the edges of `bins` bins of equal width, of shape (bins + 1,).

    Each edge is the number that is closest to the exact fraction. With 10 bins over [0, 1], the fourth edge is .3 and
    not .30000000000000004, which ``numpy.linspace`` returns.
    """
    above = np.arange(bins + 1)
    return np.asarray((lower * (bins - above) + upper * above) / bins, dtype=np.float64)


def bin_index(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """Return the bin of each value, from 0. A bin contains its lower edge, and the last bin also its upper edge.

    Edges are lowered by 1e-12, so that a value on an edge belongs to the bin above in spite of rounding errors.
    """
    return np.searchsorted(edges[1:-1] - _ROUNDING, values, side="right")


@lru_cache(maxsize=2)  # ECE and the average calibration error need the same totals.
def _bin_totals(rows: PrefixRows, bins: int) -> Callable[[Floats], tuple[Floats, Floats]]:
    """Return a function that computes the totals of each bin from weights of shape (resamples, questions).

    The totals are the sum of r - y and the number of rows, both of shape (resamples, bins).
    """
    questions = len(rows.question_ids)
    cell = rows.question_index * bins + bin_index(rows.reward, bin_edges(bins))
    totals = [
        np.bincount(cell, weights=values, minlength=questions * bins).reshape(questions, bins)
        for values in (rows.reward - rows.success_rate, np.ones(len(rows.reward)))
    ]
    error_and_count_totals = np.concatenate(totals, axis=1).astype(np.float64)

    def under(weights: Floats) -> tuple[Floats, Floats]:
        errors, counts = np.split(weighted_totals(weights, error_and_count_totals), 2, axis=1)
        return errors, counts

    return reuse_last(under)


@dataclass(eq=False)
class BinErrors(Metric):
    """The base of calibration errors over bins."""

    better = "lower"
    corrected: ClassVar[bool] = False
    """True if the noise of the bins is removed."""

    bins: Count = 10
    """The number of bins."""

    @abstractmethod
    def errors_of(self, rows: PrefixRows) -> Errors:
        """Return the signed share of each bin under weights of the questions."""

    def measure(self, rows: PrefixRows) -> AbsoluteSum:
        """Return the sum of the absolute values of :meth:`errors_of`."""
        return AbsoluteSum(self.errors_of(rows), self.corrected)


class ECE(BinErrors):
    """Expected calibration error: the mean of ``abs(mean r - mean y)`` over equal-width bins, weighted by rows."""

    citation = "Naeini et al. (2015), AAAI"
    title = "ECE"
    description = "Calibration error over bins of equal width, weighted by count. Noise increases it."

    def errors_of(self, rows: PrefixRows) -> Errors:
        """Return the sum of r - y over each bin, divided by the number of all rows."""
        totals = _bin_totals(rows, self.bins)

        def shares(weights: Floats) -> Floats:
            errors, counts = totals(weights)
            return np.asarray(errors / counts.sum(axis=1, keepdims=True))

        return shares


class AverageCE(BinErrors):
    """Average calibration error: the unweighted mean of ``abs(mean r - mean y)`` over non-empty equal-width bins."""

    title = "Average CE"
    description = "Calibration error in the unweighted mean over the bins that are not empty. Noise increases it."

    def errors_of(self, rows: PrefixRows) -> Errors:
        """Return the mean of r - y in each bin, divided by the number of bins that are not empty."""
        totals = _bin_totals(rows, self.bins)

        def shares(weights: Floats) -> Floats:
            errors, counts = totals(weights)
            # An empty bin has the error 0, so it may be divided by any number.
            filled = np.count_nonzero(counts, axis=1, keepdims=True)
            return np.asarray(errors / np.maximum(counts, 1) / filled)

        return shares


class AdaptiveCE(BinErrors):
    """Adaptive calibration error: the unweighted mean of ``abs(mean r - mean y)`` over B bins of equal mass.

    The rows are sorted by reward, and their mass is cut into B equal parts. If a cut lies within a group of rows with
    equal rewards, each of these rows is divided between the bins in the same proportion. So the value does not depend
    on the order of the rows, and it is defined for any number of rows.
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


@lru_cache(maxsize=2)  # The plain and the corrected metric need the same errors.
def _equal_mass(rows: PrefixRows, bins: int) -> Errors:
    """Return the sum of r - y over each bin of equal mass, divided by the mass of all rows."""
    cuts = np.arange(bins + 1) / bins
    order = np.argsort(rows.reward, kind="stable")
    question, error = rows.question_index[order], (rows.reward - rows.success_rate)[order]
    # Rows with equal rewards are a group, which a cut divides in proportion.
    ends_of_groups = np.flatnonzero(np.diff(rows.reward[order], append=2.0) > 0)

    def shares(weights: Floats) -> Floats:
        errors_of_bins = np.empty((len(weights), bins))
        for resample, of_questions in enumerate(weights):
            weight = of_questions[question]
            mass, errors = (np.append(0.0, np.cumsum(values)[ends_of_groups]) for values in (weight, weight * error))
            errors_of_bins[resample] = np.diff(np.interp(cuts * mass[-1], mass, errors)) / mass[-1]
        return errors_of_bins

    return reuse_last(shares)
