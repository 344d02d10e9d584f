"""Calibration errors: sums of absolute mean errors over bins of the rewards.

Equal-width bins are [0, 1/B), [1/B, 2/B), ..., [1 - 1/B, 1]: a reward of exactly 1 belongs to the last bin. ECE weights
its bins by their rows, AverageCE and AdaptiveCE do not. The definitions are those of "Know What You Don't Know" (Park
et al., 2025), section 5.

The errors of a perfect predictor are not 0, because noise increases every absolute value. :class:`BinErrors` has the
published values, whose estimate and interval both contain this increase. :class:`CorrectedCE` removes it from both.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.absolute_sums import absolute_sum_interval, without_noise
from prmcal.db.statistics.bins import bin_edges, bin_index
from prmcal.db.statistics.bootstrap import Bootstrap, Statistic, question_totals, weighted_totals
from prmcal.db.statistics.intervals import centred_interval
from prmcal.harness.metrics.rows import PrefixRows

__all__ = ["ECE", "AdaptiveCE", "AverageCE", "BinErrors", "CorrectedCE"]

# Replicates times rows that AdaptiveCE processes at once. They fit into a processor's cache.
_CHUNK_ELEMENTS = 200_000


class BinErrors(Statistic):
    """The base of calibration errors: the sum of the absolute values of :meth:`errors`.

    Its interval says where the value would lie for as many other questions. Both include the noise.

    Attributes
    ----------
    name : str
        The name in :mod:`prmcal.db.metrics`.
    """

    name: ClassVar[str]

    @abstractmethod
    def errors(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the signed share of each bin under each row of `weights`: (replicates, bins)."""

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the error under each row of `weights`, in [0, 1]."""
        total: NDArray[np.float64] = np.abs(self.errors(weights)).sum(axis=1)
        return total

    def interval(self, replicates: NDArray[np.float64]) -> tuple[float, float]:
        """Return the ends of the 95% interval, which is centred at the value."""
        return centred_interval(self.value(), replicates, len(self.question_ids))


class CorrectedCE(Statistic):
    """A calibration error without the noise of the bins, an estimate of the error over all questions.

    The noise of each bin is measured by resampling questions, so it includes that of the follow-ups. See
    :mod:`prmcal.db.statistics.absolute_sums` for the estimate, its bias and its interval.

    Parameters
    ----------
    plain : BinErrors
        The error with its noise.
    bootstrap : Bootstrap
        How questions are resampled.
    """

    def __init__(self, plain: BinErrors, bootstrap: Bootstrap) -> None:
        self.question_ids, self.rows = plain.question_ids, plain.rows
        self._plain = plain
        questions = len(plain.question_ids)
        weights = bootstrap.weights(questions) if questions > 1 else np.ones((1, 1))
        self._drawn = plain.errors(weights)
        # The bootstrap variance of n questions is too small by the factor (n - 1) / n.
        self._noise = self._drawn.std(axis=0) * np.sqrt(questions / max(questions - 1, 1))

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the corrected error under each row of `weights`. It can be below 0, as a test of two cells needs."""
        return without_noise(self._plain.errors(weights), self._noise)

    def value(self) -> float:
        """Compute the corrected error with every question counted once, in [0, 1]: a value below 0 becomes 0."""
        return max(super().value(), 0.0)

    def interval(self, replicates: NDArray[np.float64]) -> tuple[float, float]:
        """Return the ends of the 95% interval of the error over all questions, which contains the value."""
        errors = self._plain.errors(np.ones((1, len(self.question_ids))))[0]
        low, high = absolute_sum_interval(errors, self._drawn, len(self.question_ids))
        value = self.value()
        return min(low, value), max(high, value)


class _EqualWidth(BinErrors):
    """The base of ECE and AverageCE: errors and counts of each question in each equal-width bin."""

    def __init__(self, rows: PrefixRows, bins: int = 10) -> None:
        self.question_ids = rows.question_ids
        self.rows = len(rows.reward)
        questions = len(rows.question_ids)
        cell = rows.question_index * bins + bin_index(rows.reward, bin_edges(bins))
        shape = (questions, bins)
        self._errors = question_totals(cell, rows.reward - rows.success_rate, questions * bins).reshape(shape)
        self._counts = question_totals(cell, np.ones(self.rows), questions * bins).reshape(shape)


class ECE(_EqualWidth):
    """Expected calibration error: the mean of |mean r - mean y| over equal-width bins, weighted by their rows.

    Parameters
    ----------
    rows : PrefixRows
        Predictions and measurements.
    bins : int
        The number of bins over [0, 1].
    """

    name = "ece"

    def errors(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the sum of r - y over each bin, divided by the number of all rows."""
        counts = weighted_totals(weights, self._counts).sum(axis=1, keepdims=True)
        shares: NDArray[np.float64] = weighted_totals(weights, self._errors) / counts
        return shares


class AverageCE(_EqualWidth):
    """Average calibration error: the unweighted mean of |mean r - mean y| over non-empty equal-width bins.

    Parameters
    ----------
    rows : PrefixRows
        Predictions and measurements.
    bins : int
        The number of bins over [0, 1].
    """

    name = "average_ce"

    def errors(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the mean of r - y over each bin, divided by the number of bins that are not empty."""
        counts = weighted_totals(weights, self._counts)
        # An empty bin has the error 0, so it may be divided by any number.
        means = weighted_totals(weights, self._errors) / np.maximum(counts, 1)
        shares: NDArray[np.float64] = means / np.count_nonzero(counts, axis=1, keepdims=True)
        return shares


class AdaptiveCE(BinErrors):
    """Adaptive calibration error: the unweighted mean of |mean r - mean y| over B bins of equal mass.

    The rows are sorted by reward, and their mass is cut into B equal parts. If a cut lies within a group of rows with
    equal rewards, each of these rows is divided between the bins in the same proportion. So the value does not depend
    on the order of the rows, and it is defined for any number of rows.

    Parameters
    ----------
    rows : PrefixRows
        Predictions and measurements.
    bins : int
        The number of bins.
    """

    name = "adaptive_ce"

    def __init__(self, rows: PrefixRows, bins: int = 10) -> None:
        self._cuts = bin_edges(bins)
        self.question_ids = rows.question_ids
        self.rows = len(rows.reward)
        order = np.argsort(rows.reward, kind="stable")
        reward = rows.reward[order]
        self._question = rows.question_index[order]
        self._errors = (rows.reward - rows.success_rate)[order]
        self._group_ends = np.flatnonzero(np.concatenate([[True], np.diff(reward) > 0, [True]]))
        self._computed: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def errors(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the sum of r - y over each bin, divided by the mass of all rows."""
        if self._computed is not None and self._computed[0] is weights:
            return self._computed[1]
        errors = np.empty((len(weights), len(self._cuts) - 1))
        chunk = max(1, _CHUNK_ELEMENTS // self.rows)
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
        running = np.zeros((len(quantity), self.rows + 1))
        np.cumsum(quantity, axis=1, out=running[:, 1:])
        return np.take(running, self._group_ends, axis=1)
