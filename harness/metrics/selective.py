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
        self.rewards = _ordered(rewards)
        self.risk = 1.0 - np.asarray(accuracy, dtype=np.float64)

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the area under each row of `weights`."""
        order = np.argsort(-self.rewards, kind="stable")
        ends = np.flatnonzero(
            np.diff(self.rewards[order], append=-2.0)
        )  # The end of each group of equal rewards.
        drawn = weights[:, order] / weights.sum(axis=1, keepdims=True)
        answered = np.cumsum(drawn, axis=1)[:, ends]
        wrong = np.cumsum(drawn * self.risk[order], axis=1)[:, ends]
        before, lost = (np.pad(each, ((0, 0), (1, 0)))[:, :-1] for each in (answered, wrong))
        width = answered - before
        # Within a group of equal rewards the risk is the integral of (lost + m (c - before)) / c.
        mean = np.divide(wrong - lost, width, out=np.zeros_like(width), where=width > 0)
        ratio = np.divide(answered, before, out=np.ones_like(width), where=before > 0)
        parts = (lost - mean * before) * np.log(ratio) + mean * width
        areas: NDArray[np.float64] = parts.sum(axis=1)
        return areas


def risk_at(thresholds: ArrayLike, rewards: ArrayLike, accuracy: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Return the coverage and the risk of answering the questions whose rewards are at least a threshold.

    Parameters
    ----------
    thresholds : array-like of shape (thresholds,)
        In [0, 1].
    rewards, accuracy : array-like of shape (questions,)
        As for :class:`RiskCoverageArea`.

    Returns
    -------
    dict of str to ndarray of shape (thresholds,)
        coverage and risk, each with the ends of its 95% interval: coverage_low, coverage_high, and so on. The risk is
        that of the answered questions, and so is its interval. It is 0 if no question is answered. With fewer than two
        answered questions it has no interval (NaN).
    """
    answered = _ordered(rewards)[:, None] >= np.asarray(thresholds, dtype=np.float64)
    wrong = 1.0 - np.asarray(accuracy, dtype=np.float64)
    coverage_low, coverage_high = bounded_interval(answered.astype(np.float64))
    risks = [_risk(wrong[chosen]) for chosen in answered.T]
    risk, risk_low, risk_high = np.array(risks, dtype=np.float64).reshape(-1, 3).T
    return {
        "coverage": answered.mean(axis=0),
        "coverage_low": coverage_low,
        "coverage_high": coverage_high,
        "risk": risk,
        "risk_low": risk_low,
        "risk_high": risk_high,
    }


def _risk(wrong: NDArray[np.float64]) -> tuple[float, float, float]:
    low, high = bounded_interval(wrong)
    return float(wrong.mean()) if wrong.size else 0.0, float(low), float(high)


def _ordered(rewards: ArrayLike) -> NDArray[np.float64]:
    """Return rewards in which NaN is replaced by a value below all others."""
    return np.nan_to_num(np.asarray(rewards, dtype=np.float64), nan=-1.0)
