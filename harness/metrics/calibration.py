"""How far predicted rewards r are from measured success rates y = k/n, in one number.

Equal-width bins are [0, 1/B), [1/B, 2/B), ..., [1 - 1/B, 1]: a reward of exactly 1 belongs to the last.
Brier and PosBrier are means over all rows; ECE weights its bins by their rows, AverageCE and AdaptiveCE
do not. The figures are those of "Know What You Don't Know" (Park et al., 2025), section 5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Metric, RowMean, question_totals, weighted_totals
from prmcal.harness.metrics.rows import PrefixRows

__all__ = [
    "ECE",
    "AdaptiveCE",
    "AverageCE",
    "bin_edges",
    "bin_index",
    "brier",
    "brier_corrected",
    "calibration_metrics",
    "positive_brier",
    "signed_error",
]

# Replicates times rows that AdaptiveCE works on at once: what a processor's cache holds.
_CHUNK_ELEMENTS = 200_000


def brier(rows: PrefixRows) -> Metric:
    """Mean of (r - y)^2, in [0, 1].

    With n follow-ups even a perfect predictor scores the mean of p(1 - p)/n: see :func:`brier_corrected`.
    """
    return RowMean((rows.reward - rows.success_rate) ** 2, rows.question)


def positive_brier(rows: PrefixRows) -> Metric:
    """Mean of max(r - y, 0)^2 over all rows, in [0, 1]: overestimation only."""
    return RowMean(np.maximum(rows.reward - rows.success_rate, 0) ** 2, rows.question)


def brier_corrected(rows: PrefixRows) -> Metric:
    """Brier score without the noise of the follow-ups: mean of (r - y)^2 - y(1 - y)/(n - 1).

    Its expectation is the mean of (r - p)^2, so a perfect predictor may well come out below 0. Where y is 0
    or 1, as for every prefix that already holds its final answer, nothing is subtracted.

    Raises
    ------
    ValueError
        If a row has a single follow-up, from which its noise cannot be told.
    """
    single = int(np.count_nonzero(rows.follow_ups < 2))
    if single:
        raise ValueError(
            f"The Brier score can be corrected only where every prefix has at least 2 follow-ups; "
            f"{single} of {len(rows.reward)} have 1. Measure with more follow-ups."
        )
    success_rate = rows.success_rate
    noise = success_rate * (1 - success_rate) / (rows.follow_ups - 1)
    return RowMean((rows.reward - success_rate) ** 2 - noise, rows.question)


def signed_error(rows: PrefixRows) -> Metric:
    """Mean of r - y, in [-1, 1]: above 0 the rewards are overconfident."""
    return RowMean(rows.reward - rows.success_rate, rows.question)


class _EqualWidth(Metric):
    """What ECE and AverageCE share: errors and counts of each question in each equal-width bin."""

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
    """Expected calibration error: |mean r - mean y| of each equal-width bin, weighted by its rows.

    Parameters
    ----------
    rows : PrefixRows
        Predictions and measurements.
    bins : int
        Bins over [0, 1].
    """

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the error under each row of `weights`, in [0, 1]."""
        counts = self._bin_counts(weights)
        errors: NDArray[np.float64] = self._absolute_errors(weights).sum(axis=1) / counts.sum(axis=1)
        return errors


class AverageCE(_EqualWidth):
    """Average calibration error: |mean r - mean y| of each equal-width bin, plain mean over non-empty bins.

    Parameters
    ----------
    rows : PrefixRows
        Predictions and measurements.
    bins : int
        Bins over [0, 1].
    """

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the error under each row of `weights`, in [0, 1]."""
        counts = self._bin_counts(weights)
        # An empty bin has an error of 0, whatever it is divided by.
        gaps = self._absolute_errors(weights) / np.maximum(counts, 1)
        errors: NDArray[np.float64] = gaps.sum(axis=1) / np.count_nonzero(counts, axis=1)
        return errors


class AdaptiveCE(Metric):
    """Adaptive calibration error: |mean r - mean y| of each of B bins of equal mass, plain mean.

    The rows, in ascending order of reward, are a line of mass cut into B equal parts. Rows of equal reward
    share their stretch evenly: a bin that covers a part of a tied group takes that part of each of its rows.
    So the value does not depend on the order of the rows, and neither rows that B does not divide nor fewer
    rows than bins need a rule of their own.

    Parameters
    ----------
    rows : PrefixRows
        Predictions and measurements.
    bins : int
        Bins of equal mass.
    """

    def __init__(self, rows: PrefixRows, bins: int = 10) -> None:
        _check_bins(bins)
        self.question_ids = rows.question_ids
        self.rows = len(rows.reward)
        order = np.argsort(rows.reward, kind="stable")
        reward = rows.reward[order]
        self._question = rows.question_index[order]
        self._errors = (rows.reward - rows.success_rate)[order]
        self._group_ends = np.flatnonzero(np.concatenate([[True], np.diff(reward) > 0, [True]]))
        self._cuts = np.arange(bins + 1) / bins

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
        # Within a tied group error grows in proportion to mass: a straight line between the groups' ends.
        at_cuts = np.array(
            [np.interp(self._cuts * full, m, e) for full, m, e in zip(total, mass, error, strict=True)]
        )
        result: NDArray[np.float64] = np.abs(np.diff(at_cuts, axis=1)).sum(axis=1) / total
        return result

    def _at_group_ends(self, quantity: NDArray[np.float64]) -> NDArray[np.float64]:
        running = np.zeros((len(quantity), self.rows + 1))
        np.cumsum(quantity, axis=1, out=running[:, 1:])
        return np.take(running, self._group_ends, axis=1)


def calibration_metrics(rows: PrefixRows, bins: int = 10) -> dict[str, Metric]:
    """Every calibration metric of `rows` by name.

    ``brier_corrected`` is not among them where a prefix has a single follow-up.
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


def bin_edges(bins: int, lower: float = 0.0, upper: float = 1.0) -> NDArray[np.float64]:
    """Return the edges of `bins` equal-width bins, of shape (bins + 1,)."""
    _check_bins(bins)
    return np.linspace(lower, upper, bins + 1)


def bin_index(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the bin of each value. An edge belongs to the bin that begins there, the last to the last."""
    return np.searchsorted(edges[1:-1], values, side="right")


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise ValueError(f"'bins' must be an int in [1, inf). Got {bins} instead.")
