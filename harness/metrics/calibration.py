"""Calibration metrics: the distance of predicted rewards r from measured success rates y = k/n.

Equal-width bins are [0, 1/B), [1/B, 2/B), ..., [1 - 1/B, 1]: a reward of exactly 1 belongs to the last bin. Brier and
PosBrier are means over all rows. ECE weights its bins by their rows, AverageCE and AdaptiveCE do not. The metrics are
those of "Know What You Don't Know" (Park et al., 2025), section 5.

Means have the interval of their skewed values, and the calibration errors, which are sums of absolute values, that of
percentiles (:mod:`prmcal.db.statistics.intervals`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bins import bin_edges, bin_index
from prmcal.db.statistics.bootstrap import RowMean, Statistic, question_totals, weighted_totals
from prmcal.harness.metrics.rows import PrefixRows

__all__ = [
    "ECE",
    "AdaptiveCE",
    "AverageCE",
    "brier",
    "brier_corrected",
    "calibration_metrics",
    "positive_brier",
    "signed_error",
]

# Replicates times rows that AdaptiveCE processes at once. They fit into a processor's cache.
_CHUNK_ELEMENTS = 200_000


def brier(rows: PrefixRows) -> Statistic:
    """Return the Brier score, the mean of (r - y)^2, in [0, 1].

    With n follow-ups a perfect predictor has the mean of p(1 - p)/n: see :func:`brier_corrected`.
    """
    return RowMean((rows.reward - rows.success_rate) ** 2, rows.question)


def positive_brier(rows: PrefixRows) -> Statistic:
    """Return the mean of max(r - y, 0)^2 over all rows, in [0, 1]. It counts only overestimation."""
    return RowMean(np.maximum(rows.reward - rows.success_rate, 0) ** 2, rows.question)


def brier_corrected(rows: PrefixRows) -> Statistic:
    """Return the Brier score without the noise of the follow-ups: the mean of (r - y)^2 - y(1 - y)/(n - 1).

    Its expectation is the mean of (r - p)^2, so the value of a perfect predictor can be below 0. Where y is 0 or 1, as
    for every prefix that contains its final answer, nothing is subtracted.

    Raises
    ------
    ValueError
        If a row has only one follow-up, from which the noise cannot be estimated.
    """
    single = int(np.count_nonzero(rows.follow_ups < 2))
    if single:
        raise ValueError(
            f"The Brier score can only be corrected if every prefix has at least 2 follow-ups. "
            f"{single} of {len(rows.reward)} prefixes have 1. Measure with more follow-ups."
        )
    success_rate = rows.success_rate
    noise = success_rate * (1 - success_rate) / (rows.follow_ups - 1)
    return RowMean((rows.reward - success_rate) ** 2 - noise, rows.question)


def signed_error(rows: PrefixRows) -> Statistic:
    """Return the mean of r - y, in [-1, 1]. Above 0 the rewards are too high on average."""
    return RowMean(rows.reward - rows.success_rate, rows.question)


class _EqualWidth(Statistic):
    """The base of ECE and AverageCE: errors and counts of each question in each equal-width bin."""

    def __init__(self, rows: PrefixRows, bins: int = 10) -> None:
        self.question_ids = rows.question_ids
        self.rows = len(rows.reward)
        questions = len(rows.question_ids)
        cell = rows.question_index * bins + bin_index(rows.reward, bin_edges(bins))
        shape = (questions, bins)
        self._errors = question_totals(cell, rows.reward - rows.success_rate, questions * bins).reshape(shape)
        self._counts = question_totals(cell, np.ones(self.rows), questions * bins).reshape(shape)

    def _absolute_errors(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.abs(weighted_totals(weights, self._errors))

    def _bin_counts(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return weighted_totals(weights, self._counts)


class ECE(_EqualWidth):
    """Expected calibration error: the mean of |mean r - mean y| over equal-width bins, weighted by their rows.

    Parameters
    ----------
    rows : PrefixRows
        Predictions and measurements.
    bins : int
        The number of bins over [0, 1].
    """

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the error under each row of `weights`, in [0, 1]."""
        counts = self._bin_counts(weights)
        errors: NDArray[np.float64] = self._absolute_errors(weights).sum(axis=1) / counts.sum(axis=1)
        return errors


class AverageCE(_EqualWidth):
    """Average calibration error: the unweighted mean of |mean r - mean y| over non-empty equal-width bins.

    Parameters
    ----------
    rows : PrefixRows
        Predictions and measurements.
    bins : int
        The number of bins over [0, 1].
    """

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the error under each row of `weights`, in [0, 1]."""
        counts = self._bin_counts(weights)
        # An empty bin has the error 0, so it may be divided by any number.
        gaps = self._absolute_errors(weights) / np.maximum(counts, 1)
        errors: NDArray[np.float64] = gaps.sum(axis=1) / np.count_nonzero(counts, axis=1)
        return errors


class AdaptiveCE(Statistic):
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

    def __init__(self, rows: PrefixRows, bins: int = 10) -> None:
        self._cuts = bin_edges(bins)
        self.question_ids = rows.question_ids
        self.rows = len(rows.reward)
        order = np.argsort(rows.reward, kind="stable")
        reward = rows.reward[order]
        self._question = rows.question_index[order]
        self._errors = (rows.reward - rows.success_rate)[order]
        self._group_ends = np.flatnonzero(np.concatenate([[True], np.diff(reward) > 0, [True]]))

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the error under each row of `weights`, in [0, 1]."""
        errors = np.empty(len(weights))
        chunk = max(1, _CHUNK_ELEMENTS // self.rows)
        for first in range(0, len(weights), chunk):
            errors[first : first + chunk] = self._chunk_values(weights[first : first + chunk])
        return errors

    def _chunk_values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        row_weights = np.take(weights, self._question, axis=1)
        mass = self._at_group_ends(row_weights)
        error = self._at_group_ends(row_weights * self._errors)
        total = mass[:, -1]
        # Within a group of equal rewards the error is linear in the mass.
        at_cuts = np.array(
            [np.interp(self._cuts * full, m, e) for full, m, e in zip(total, mass, error, strict=True)]
        )
        result: NDArray[np.float64] = np.abs(np.diff(at_cuts, axis=1)).sum(axis=1) / total
        return result

    def _at_group_ends(self, quantity: NDArray[np.float64]) -> NDArray[np.float64]:
        running = np.zeros((len(quantity), self.rows + 1))
        np.cumsum(quantity, axis=1, out=running[:, 1:])
        return np.take(running, self._group_ends, axis=1)


def calibration_metrics(rows: PrefixRows, bins: int = 10) -> dict[str, Statistic]:
    """Return every calibration metric of `rows` by name.

    ``brier_corrected`` is left out if a prefix has only one follow-up.
    """
    metrics = {
        "brier": brier(rows),
        "positive_brier": positive_brier(rows),
        "ece": ECE(rows, bins),
        "adaptive_ce": AdaptiveCE(rows, bins),
        "average_ce": AverageCE(rows, bins),
        "signed_error": signed_error(rows),
    }
    if np.all(rows.follow_ups > 1):
        metrics["brier_corrected"] = brier_corrected(rows)
    return metrics
