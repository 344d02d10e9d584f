"""Selective answering: what is gained by saying "I don't know" where the calibrated reward is low.

Questions are answered from the highest reward down. At a coverage c, the share that is answered, the risk is the share
of wrong answers among them. The area under risk against coverage is the mean risk over all coverages (Geifman and
El-Yaniv, 2017): the risk of answering all where rewards say nothing, and the smaller the better they order questions.
It does not say whether the rewards are right as numbers: a calibrator that keeps their order keeps the area.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prmcal.db.statistics.bootstrap import Metric, weighted_totals

__all__ = ["Answering", "RiskCoverageArea"]


class _Selective(Metric):
    """Questions in groups of equal reward, from the highest down.

    Parameters
    ----------
    rewards : array-like of shape (questions,)
        Higher is answered first; NaN, a question that could not be read, last.
    accuracy : array-like of shape (questions,)
        Chance in [0, 1] that the question is answered right.
    question_ids : array-like of shape (questions,)
    """

    def __init__(self, rewards: ArrayLike, accuracy: ArrayLike, question_ids: ArrayLike) -> None:
        self.question_ids: NDArray[Any] = np.asarray(question_ids)
        self.rows = len(self.question_ids)
        self.rewards = np.nan_to_num(np.asarray(rewards, dtype=np.float64), nan=-1.0)
        self.risk = 1.0 - np.asarray(accuracy, dtype=np.float64)


class RiskCoverageArea(_Selective):
    """The area under risk against coverage; questions of equal reward are answered in random order."""

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the area under each row of `weights`."""
        order = np.argsort(-self.rewards, kind="stable")
        ends = np.flatnonzero(np.diff(self.rewards[order], append=-2.0))  # of each group of equal rewards
        drawn = weights[:, order] / weights.sum(axis=1, keepdims=True)
        answered = np.cumsum(drawn, axis=1)[:, ends]
        wrong = np.cumsum(drawn * self.risk[order], axis=1)[:, ends]
        before, lost = (np.pad(each, ((0, 0), (1, 0)))[:, :-1] for each in (answered, wrong))
        width = answered - before
        # Within a group the risk adds up evenly: the integral of (lost + m (c - before)) / c.
        mean = np.divide(wrong - lost, width, out=np.zeros_like(width), where=width > 0)
        ratio = np.divide(answered, before, out=np.ones_like(width), where=before > 0)
        parts = (lost - mean * before) * np.log(ratio) + mean * width
        areas: NDArray[np.float64] = parts.sum(axis=1)
        return areas


class Answering(_Selective):
    """Coverage, or risk, of answering the questions whose reward is at least a threshold.

    Parameters
    ----------
    threshold : float
        In [0, 1].
    wanted : {"coverage", "risk"}
        Risk is 0 where nothing is answered.
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
