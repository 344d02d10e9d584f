"""Calibration errors: sums of absolute mean errors over bins of the rewards.

Equal-width bins are [0, 1/B), [1/B, 2/B), ..., [1 - 1/B, 1]: a reward of exactly 1 belongs to the last bin. ECE weights
its bins by their rows, AverageCE and AdaptiveCE do not. The definitions are those of "Know What You Don't Know" (Park
et al., 2025), section 5.

The errors of a perfect predictor are not 0, because noise increases every absolute value. The plain metrics have the
published values, whose estimate and interval both contain this increase. The corrected ones remove it from both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.measured import AbsoluteSum, weighted_totals
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.ranges import Count
from prmcal.registry.contracts.rows import PrefixRows
from prmcal.registry.metrics.bins import equal_width

__all__ = [
    "ECE",
    "AdaptiveCE",
    "AverageCE",
    "BinErrors",
    "CorrectedAdaptiveCE",
    "CorrectedAverageCE",
    "CorrectedECE",
]

# Replicates times rows that AdaptiveCE processes at once. They fit into a processor's cache.
_CHUNK_ELEMENTS = 200_000


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
    def errors_of(self, rows: PrefixRows) -> _Errors:
        """Return the signed share of each bin under weights of the questions."""

    def measure(self, rows: PrefixRows) -> AbsoluteSum:
        """Return the sum of the absolute values of :meth:`errors_of`."""
        return AbsoluteSum(self.errors_of(rows), self.corrected)


class _Errors(ABC):
    """From weights of shape (replicates, questions) to signed shares of bins, of shape (replicates, bins)."""

    @abstractmethod
    def __call__(self, weights: NDArray[np.float64]) -> NDArray[np.float64]: ...


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

    def errors_of(self, rows: PrefixRows) -> _Errors:
        """Return the sum of r - y over each bin, divided by the number of all rows."""
        return _Weighted(rows, self.bins)


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

    def errors_of(self, rows: PrefixRows) -> _Errors:
        """Return the mean of r - y over each bin, divided by the number of bins that are not empty."""
        return _Unweighted(rows, self.bins)


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

    def errors_of(self, rows: PrefixRows) -> _Errors:
        """Return the sum of r - y over each bin, divided by the mass of all rows."""
        return _equal_mass(rows, self.bins)


class CorrectedAdaptiveCE(AdaptiveCE):
    """Adaptive CE without the noise of the bins, an estimate of the error over all questions."""

    title, corrected = "Adaptive CE, corrected", True
    description = "Adaptive CE without the increase by noise. A value below 0 is shown as 0."


class _EqualWidth(_Errors):
    """Errors and counts of each question in each equal-width bin."""

    def __init__(self, rows: PrefixRows, bins: int) -> None:
        questions = len(rows.question_ids)
        cell = rows.question_index * bins + equal_width(rows.reward, bins)
        self._errors, self._counts = (
            np.bincount(cell, weights=each, minlength=questions * bins)
            .reshape(questions, bins)
            .astype(np.float64)
            for each in (rows.reward - rows.success_rate, np.ones(len(rows.reward)))
        )


class _Weighted(_EqualWidth):
    def __call__(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        counts = weighted_totals(weights, self._counts).sum(axis=1, keepdims=True)
        shares: NDArray[np.float64] = weighted_totals(weights, self._errors) / counts
        return shares


class _Unweighted(_EqualWidth):
    def __call__(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        counts = weighted_totals(weights, self._counts)
        # An empty bin has the error 0, so it may be divided by any number.
        means = weighted_totals(weights, self._errors) / np.maximum(counts, 1)
        shares: NDArray[np.float64] = means / np.count_nonzero(counts, axis=1, keepdims=True)
        return shares


@lru_cache(maxsize=2)  # The plain and the corrected metric need the same errors.
def _equal_mass(rows: PrefixRows, bins: int) -> _EqualMass:
    return _EqualMass(rows, bins)


class _EqualMass(_Errors):
    """Rows sorted by their rewards. Their mass and errors are added up to every cut between bins."""

    def __init__(self, rows: PrefixRows, bins: int) -> None:
        self._cuts = np.arange(bins + 1) / bins
        self._rows = len(rows.reward)
        order = np.argsort(rows.reward, kind="stable")
        reward = rows.reward[order]
        self._question = rows.question_index[order]
        self._errors = (rows.reward - rows.success_rate)[order]
        self._group_ends = np.flatnonzero(np.concatenate([[True], np.diff(reward) > 0, [True]]))
        self._computed: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def __call__(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._computed is not None and self._computed[0] is weights:
            return self._computed[1]
        errors = np.empty((len(weights), len(self._cuts) - 1))
        chunk = max(1, _CHUNK_ELEMENTS // self._rows)
        for first in range(0, len(weights), chunk):
            errors[first : first + chunk] = self._chunk_errors(weights[first : first + chunk])
        if not weights.flags.writeable:  # The weights of a bootstrap, which are used several times.
            self._computed = weights, errors
        return errors

    def _chunk_errors(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        row_weights = np.take(weights, self._question, axis=1)
        mass = self._at_group_ends(row_weights)
        error = self._at_group_ends(row_weights * self._errors)
        total = mass[:, -1]
        # Within a group of equal rewards the error is linear in the mass.
        at_cuts = np.array(
            [np.interp(self._cuts * full, m, e) for full, m, e in zip(total, mass, error, strict=True)]
        )
        result: NDArray[np.float64] = np.diff(at_cuts, axis=1) / total[:, None]
        return result

    def _at_group_ends(self, quantity: NDArray[np.float64]) -> NDArray[np.float64]:
        running = np.zeros((len(quantity), self._rows + 1))
        np.cumsum(quantity, axis=1, out=running[:, 1:])
        return np.take(running, self._group_ends, axis=1)
