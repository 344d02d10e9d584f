"""Scores of a reward: Brier scores, the signed error, the log loss, and the AUROC within questions.

scikit-learn's brier_score_loss and log_loss take labels of 0 and 1 and return one number. Here, labels are success
rates, and the bootstrap needs the part of each question. The tests compare with them.
"""

import numpy as np

from prmcal.arrays import Floats
from prmcal.registry.contracts.metric import Metric, PrefixRows, QuestionRatio

_SMALLEST = 1e-6


class Brier(Metric):
    """The Brier score, the mean of (r - y)^2, in [0, 1].

    With n follow-ups a perfect predictor has the mean of p(1 - p)/n: see :class:`CorrectedBrier`.
    """

    citation = "Brier (1950), Monthly Weather Review 78"
    title, better, usual = "Brier", "lower", (0.0, 0.5)
    description = "Mean squared difference between reward and success rate."

    def measure(self, rows: PrefixRows) -> Floats:
        """Return (r - y)^2 of each row."""
        return (rows.reward - rows.success_rate) ** 2


class CorrectedBrier(Metric):
    """The Brier score without the noise of the follow-ups: the mean of (r - y)^2 - y(1 - y)/(n - 1).

    Its expectation is the mean of (r - p)^2, so a perfect predictor can have a value below 0. If y is 0 or 1, as for
    every prefix with its final answer, nothing is subtracted. It is not defined if a row has only one follow-up: then
    the noise cannot be estimated.
    """

    title, better, usual = "Brier, corrected", "lower", (0.0, 0.5)
    description = "Brier score minus the Monte Carlo noise of the success rates; it can fall below 0 by chance."

    def measure(self, rows: PrefixRows) -> Floats | None:
        """Return (r - y)^2 - y(1 - y)/(n - 1) of each row, or None if n = 1 in one of them."""
        if np.any(rows.follow_ups < 2):
            return None
        success_rate = rows.success_rate
        noise = success_rate * (1 - success_rate) / (rows.follow_ups - 1)
        return (rows.reward - success_rate) ** 2 - noise


class PositiveBrier(Metric):
    """The mean of max(r - y, 0)^2 over all rows, in [0, 1]. It counts only overestimation."""

    title, better, usual = "Positive Brier", "lower", (0.0, 0.5)
    description = "Brier score of overestimation only: rewards below the success rate count as 0."

    def measure(self, rows: PrefixRows) -> Floats:
        """Return max(r - y, 0)^2 of each row."""
        return np.maximum(rows.reward - rows.success_rate, 0) ** 2


class SignedError(Metric):
    """The mean of r - y, in [-1, 1]. Above 0 the rewards are too high on average."""

    title, better, usual = "Signed error", "near zero", (-0.5, 0.5)
    description = "Mean of reward minus success rate: above 0 the PRM overestimates."

    def measure(self, rows: PrefixRows) -> Floats:
        """Return r - y of each row."""
        return rows.reward - rows.success_rate


class LogLoss(Metric):
    """The mean of -[y log r + (1 - y) log(1 - r)], in [0, 13.82], with rewards clipped to [1e-6, 1 - 1e-6].

    It is linear in y, so its expectation is the cross-entropy of p and r, and follow-ups add no bias. The log loss of a
    perfect predictor is the mean entropy of p. This is the same for all calibrators: compare differences. A reward of 0
    or 1 that is wrong costs up to 13.8.
    """

    citation = "Good (1952), Journal of the Royal Statistical Society B 14"
    title, better, usual = "Log loss", "lower", (0.0, 2.0)
    description = (
        "Mean cross-entropy of reward and success rate; rewards are clipped to 0.000001 from 0 and 1. Even a perfect "
        "predictor is above 0."
    )

    def measure(self, rows: PrefixRows) -> Floats:
        """Return the cross-entropy of each row."""
        reward = np.clip(rows.reward, _SMALLEST, 1 - _SMALLEST)
        y = rows.success_rate
        return np.asarray(-(y * np.log(reward) + (1 - y) * np.log1p(-reward)), dtype=np.float64)


class AUROCWithin(Metric):
    """The area under the ROC curve within a question, averaged over questions, in [0, 1].

    It is the share of pairs of different prefixes i and j of a question, weighted by y_i (1 - y_j), in which the reward
    of i is larger; equal rewards count as 1/2. This is the probability that a follow-up of i that succeeds has a larger
    reward than a follow-up of j that fails. Questions in which all follow-ups have the same outcome are left out.
    Rewards that are the same for all prefixes of a question have 1/2.

    scikit-learn's roc_auc_score takes labels of 0 and 1. With k and n - k as weights, pairs of a prefix with itself
    would count.

    Numerator and denominator have the same expectations as with p in place of y. A perfect predictor does not reach 1
    unless p is 0 or 1 everywhere, so compare calibrators with each other. A calibrator that maps the reward by an
    increasing function changes nothing.
    """

    citation = "Hanley and McNeil (1982), Radiology 143"
    title, better = "AUROC within questions", "higher"
    description = (
        "How often the more successful prefix of a question has the larger reward: 0.5 is chance, and even a perfect "
        "predictor is below 1."
    )

    def measure(self, rows: PrefixRows) -> QuestionRatio | None:
        """Return the area of each question, or None if no question has two prefixes and both outcomes."""
        ranked, pairs = _pairs(rows)
        mixed = pairs > 0
        if not mixed.any():
            return None
        areas = np.divide(ranked, pairs, out=np.zeros(len(pairs)), where=mixed)
        return QuestionRatio(areas, mixed.astype(np.float64), bounds=(0.0, 1.0))


def _pairs(rows: PrefixRows) -> tuple[Floats, Floats]:
    """Return the sums of y_i (1 - y_j) [r_i > r_j, or 1/2 if equal] and of y_i (1 - y_j) over pairs i != j.

    Both have shape (questions,). A sum of pairs that is a rounding error is 0.
    """
    y, question = rows.success_rate, rows.question_index
    order = np.lexsort((rows.reward, question))
    # Rows of one question with equal rewards are a group.
    new = (np.diff(question[order], prepend=-1) > 0) | (np.diff(rows.reward[order], prepend=-1.0) != 0)
    group = np.empty(len(order), np.intp)
    group[order] = np.cumsum(new) - 1
    # The weight of the rows of the question below each row, and half of that of the rows with the same reward.
    failures = np.bincount(group, weights=1 - y)
    all_failures = rows.totals(1 - y)
    before = np.cumsum(all_failures) - all_failures
    below = (np.cumsum(failures) - failures / 2)[group] - before[question]
    within = rows.totals(y * (1 - y))  # Pairs of a row with itself, which count as equal.
    pairs = rows.totals(y) * all_failures - within
    return rows.totals(y * below) - within / 2, np.where(pairs > 1e-12, pairs, 0.0)
