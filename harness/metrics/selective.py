"""Selective answering: the model says "I don't know" to questions with low calibrated rewards.

Questions are answered in descending order of reward. The coverage c is the share of questions that are answered, and
the risk is the share of wrong answers among them. The area under risk against coverage is the mean risk over all
coverages (Geifman and El-Yaniv, 2017). If rewards are uninformative, it is the risk of answering all questions; it is
smaller the better the rewards order the questions. The area depends only on the order of the rewards and not on their
values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prmcal.db.statistics.bootstrap import Statistic
from prmcal.db.statistics.intervals import bounded_interval

__all__ = ["RiskCoverageArea", "risk_at"]

_BLOCK = 2**15


class RiskCoverageArea(Statistic):
    """The area under risk against coverage. Questions with equal rewards are answered in random order.

    Parameters
    ----------
    rewards : array-like of shape (questions,)
        Questions with higher rewards are answered first. NaN, a question that is too long for the PRM, is last.
    accuracy : array-like of shape (questions,)
        Probability in [0, 1] that the question is answered correctly.
    question_ids : array-like of shape (questions,)
    """

    def __init__(self, rewards: ArrayLike, accuracy: ArrayLike, question_ids: ArrayLike) -> None:
        self.question_ids: NDArray[Any] = np.asarray(question_ids)
        self.rows = len(self.question_ids)
        ordered = _ordered(rewards)
        self.order = np.argsort(-ordered, kind="stable")
        self.risk = 1.0 - np.asarray(accuracy, dtype=np.float64)[self.order]
        # The end of each group of equal rewards.
        self.ends = np.flatnonzero(np.diff(ordered[self.order], append=-2.0))

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the area under each row of `weights`."""
        # A block of the resamples fits the processor's cache.
        blocks = np.array_split(weights, weights.size // _BLOCK + 1)
        return np.concatenate([self._areas(block.T[self.order]) for block in blocks])

    def _areas(self, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the areas of resamples, from how often they have each question: (questions, replicates)."""
        answered = np.cumsum(drawn, axis=0)[self.ends]
        wrong = np.cumsum(drawn * self.risk[:, None], axis=0)[self.ends]
        # Within a group of equal rewards the risk is the integral of (lost + m (c - before)) / c, which is
        # (lost - m before) log(answered / before) + m width. The last terms add up to all wrong answers. The first
        # group has no other term.
        before, lost = answered[:-1], wrong[:-1]
        width = np.diff(answered, axis=0)
        mean = np.diff(wrong, axis=0) / np.where(width > 0, width, 1.0)
        logs = np.log(np.where(answered > 0, answered, 1.0))
        parts = (lost - mean * before) * np.diff(logs, axis=0)
        areas: NDArray[np.float64] = (parts.sum(axis=0) + wrong[-1]) / answered[-1]
        return areas


def risk_at(thresholds: ArrayLike, rewards: ArrayLike, accuracy: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Return the coverage and the risk of answering the questions whose rewards are at least a threshold.

    Parameters
    ----------
    thresholds : array-like of shape (thresholds,)
        In [0, 1].
    rewards : array-like of shape (questions, ...)
        As for :class:`RiskCoverageArea`, such as those of each level.
    accuracy : array-like of shape (questions,)
        As for :class:`RiskCoverageArea`.

    Returns
    -------
    dict of str to ndarray of shape (..., thresholds)
        coverage and risk, each with the ends of its 95% interval: coverage_low, coverage_high, and so on. The risk is
        that of the answered questions, and so is its interval. It is 0 if no question is answered. With fewer than two
        answered questions it has no interval (NaN).
    """
    answered = _ordered(rewards)[..., None] >= np.asarray(thresholds, dtype=np.float64)
    coverage_low, coverage_high = bounded_interval(answered.astype(np.float64))
    # The questions are the first axis of `answered`, and the last one of its transpose.
    wrong = np.broadcast_to(1.0 - np.asarray(accuracy, dtype=np.float64), answered.T.shape).T
    risk_low, risk_high = bounded_interval(wrong, counted=answered)
    return {
        "coverage": answered.mean(axis=0),
        "coverage_low": coverage_low,
        "coverage_high": coverage_high,
        "risk": np.where(answered, wrong, 0.0).sum(axis=0) / np.maximum(answered.sum(axis=0), 1),
        "risk_low": risk_low,
        "risk_high": risk_high,
    }


def _ordered(rewards: ArrayLike) -> NDArray[np.float64]:
    """Return rewards in which NaN is replaced by a value below all others."""
    return np.nan_to_num(np.asarray(rewards, dtype=np.float64), nan=-1.0)
