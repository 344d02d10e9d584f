"""The tables behind two figures: the reliability diagram and the histogram of signed errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Ratio, question_totals
from prmcal.db.statistics.intervals import bin_edges, bin_index, bounded_interval
from prmcal.registry.contracts.metric import PrefixRows

__all__ = ["ReliabilityBins", "SignedErrorBins", "reliability_bins", "signed_error_bins"]


@dataclass(frozen=True, eq=False)
class ReliabilityBins:
    """Rewards and measured success rates in equal-width bins over [0, 1].

    Attributes
    ----------
    lower, upper : ndarray of shape (bins,), float64
        The edges of each bin. A bin contains its lower edge, and the last bin also contains 1.
    count : ndarray of shape (bins,), int64
        Rows in the bin.
    mean_reward, mean_success : ndarray of shape (bins,), float64
        Means of r and of y = k/n; NaN in an empty bin.
    low, high : ndarray of shape (bins,), float64
        95% interval of `mean_success` over the questions in the bin; NaN in a bin with fewer than two questions.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    count: NDArray[np.int64]
    mean_reward: NDArray[np.float64]
    mean_success: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SignedErrorBins:
    """The number of rows with r - y in each of some equal-width bins over [-1, 1].

    Attributes
    ----------
    lower, upper : ndarray of shape (bins,), float64
        The edges of each bin. A bin contains its lower edge, and the last bin also contains 1.
    count : ndarray of shape (bins,), int64
        Rows in the bin.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    count: NDArray[np.int64]


def reliability_bins(rows: PrefixRows, bins: int = 10) -> ReliabilityBins:
    """Compute the table of the reliability diagram."""
    edges = bin_edges(bins)
    questions = len(rows.question_ids)
    cell = rows.question_index * bins + bin_index(rows.reward, edges)

    def totals(quantity: NDArray[np.float64]) -> NDArray[np.float64]:
        return question_totals(cell, quantity, questions * bins).reshape(questions, bins)

    counts = totals(np.ones(len(rows.reward)))
    successes = totals(rows.success_rate)
    count = counts.sum(axis=0)
    low, high = np.full(bins, np.nan), np.full(bins, np.nan)
    for index in np.flatnonzero(count):
        present = counts[:, index] > 0
        low[index], high[index] = Ratio(
            successes[present, index], counts[present, index], rows.question_ids[present], bounded_interval
        ).interval()
    return ReliabilityBins(
        lower=edges[:-1],
        upper=edges[1:],
        count=count.astype(np.int64),
        mean_reward=_mean(totals(rows.reward).sum(axis=0), count),
        mean_success=_mean(successes.sum(axis=0), count),
        low=low,
        high=high,
    )


def signed_error_bins(rows: PrefixRows, bins: int = 20) -> SignedErrorBins:
    """Compute the histogram of r - y. Errors above 0 are overestimates."""
    edges = bin_edges(bins, -1.0, 1.0)
    count = np.bincount(bin_index(rows.reward - rows.success_rate, edges), minlength=bins)
    return SignedErrorBins(lower=edges[:-1], upper=edges[1:], count=count.astype(np.int64))


def _mean(total: NDArray[np.float64], count: NDArray[np.float64]) -> NDArray[np.float64]:
    means = np.full(len(count), np.nan)
    np.divide(total, count, out=means, where=count > 0)
    return means
