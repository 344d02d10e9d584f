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

from prmcal.db.statistics.bootstrap import Statistic, weighted_totals

__all__ = ["Answering", "RiskCoverageArea"]


class _Selective(Statistic):
    """The base of the metrics of selective answering.

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
        self.rewards = np.nan_to_num(np.asarray(rewards, dtype=np.float64), nan=-1.0)
        self.risk = 1.0 - np.asarray(accuracy, dtype=np.float64)


class RiskCoverageArea(_Selective):
    """The area under risk against coverage. Questions with equal rewards are answered in random order."""

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


class Answering(_Selective):
    """The coverage or the risk of answering the questions whose rewards are at least a threshold.

    Parameters
    ----------
    threshold : float
        In [0, 1].
    wanted : {"coverage", "risk"}
        The risk is 0 if no question is answered.
    """

    def __init__(
        self,
        rewards: ArrayLike,
        accuracy: ArrayLike,
        question_ids: ArrayLike,
        threshold: float,
        wanted: str,
    ) -> None:
        super().__init__(rewards, accuracy, question_ids)
        self.answered = (self.rewards >= threshold).astype(np.float64)
        self.wanted = wanted

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute coverage or risk under each row of `weights`."""
        answered = weighted_totals(weights, self.answered)
        if self.wanted == "coverage":
            share: NDArray[np.float64] = answered / weights.sum(axis=1)
            return share
        wrong = weighted_totals(weights, self.answered * self.risk)
        return np.divide(wrong, answered, out=np.zeros_like(wrong), where=answered > 0)
