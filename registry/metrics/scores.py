"""Scores of a reward: Brier scores, the log loss, the AUROC within questions, and the CORP decomposition.

CORP divides the Brier score. S(f) is the mean of (f - y)^2 over all follow-ups: each prefix counts n times. With the
isotonic regression of y on the rewards, whose values are the recalibrated rewards, and the mean success rate c,

    miscalibration = S(r) - S(isotonic),  discrimination = S(c) - S(isotonic),  uncertainty = S(c),

so that S(r) = miscalibration - discrimination + uncertainty, exactly and without bins. Source: Dimitriadis, Gneiting
and Jordan (2021), "Stable reliability diagrams for probabilistic classifiers", PNAS 118, equation 5. The isotonic
regression is fitted to the same follow-ups, which increases miscalibration and discrimination.

scikit-learn's brier_score_loss and log_loss take labels of 0 and 1 and return one number. Here success rates are
scored, and each question's part is needed for the bootstrap. The tests compare with them.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Floats
from prmcal.registry.contracts.metric import Metric, PrefixRows, QuestionRatio, UnderWeights
from prmcal.remembered import Memory, content_digest, kept
from prmcal.resamples import weighted_totals


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

    Its expectation is the mean of (r - p)^2, so the value of a perfect predictor can be below 0. Where y is 0 or 1, as
    for every prefix that contains its final answer, nothing is subtracted. It is not defined if a row has only one
    follow-up, from which the noise cannot be estimated.
    """

    title, better, usual = "Brier, corrected", "lower", (0.0, 0.5)
    description = (
        "Brier score minus the Monte Carlo noise of the success rates; it can fall below 0 by chance."
    )

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


_SMALLEST = 1e-6


class LogLoss(Metric):
    """The mean of -[y log r + (1 - y) log(1 - r)], in [0, 13.82], with rewards clipped to [1e-6, 1 - 1e-6].

    It is linear in y, so its expectation is the cross-entropy of p and r, and follow-ups add no bias. A perfect
    predictor has the mean entropy of p, which is the same for all calibrators: only differences matter. A reward of 0
    or 1 that is wrong costs up to 13.8.

    Notes
    -----
    Source: Good (1952), "Rational decisions", Journal of the Royal Statistical Society B 14.
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

    Of all pairs of different prefixes i and j of a question, weighted by y_i (1 - y_j), it is the share in which the
    reward of i is larger; equal rewards count as 1/2. This is the probability that a follow-up of i that succeeds has a
    larger reward than a follow-up of j that fails. Questions in which all follow-ups have the same outcome are left
    out. Rewards that are the same for all prefixes of a question have 1/2.

    scikit-learn's roc_auc_score takes labels of 0 and 1. With k and n - k as weights, it would count pairs of a prefix
    with itself.

    Numerator and denominator have the expectations that they would have with p in place of y. A perfect predictor does
    not reach 1 unless p is 0 or 1 everywhere, so compare calibrators with each other. A calibrator that maps the reward
    by an increasing function changes nothing.

    Notes
    -----
    The area with soft labels is that of Hanley and McNeil (1982), Radiology 143, over pairs of follow-ups of different
    prefixes.
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


_CITATION = "Dimitriadis, Gneiting and Jordan (2021), PNAS 118"
# Rewards of calibrators that keep the order are recalibrated to the same, so the results are remembered.
_remembered, _digest_of = Memory(8 * 2**20), kept(content_digest)
_ELEMENTS = 40_000
"""Resamples times rewards that are recalibrated at once. They fit into a processor's cache."""


class Miscalibration(Metric):
    """The fall of the Brier score by isotonic recalibration of the rewards, at least 0.

    It is 0 if the rewards are calibrated in the sample: if the mean success rate of the prefixes with a reward is this
    reward. Noise increases it.
    """

    citation = _CITATION
    title, better = "Miscalibration", "lower"
    description = (
        "What the Brier score would gain by the best monotone recalibration (CORP). Noise increases it."
    )

    def measure(self, rows: PrefixRows) -> UnderWeights:
        """Return S(r) - S(isotonic) under weights of the questions."""
        scores = _scores(rows)
        return UnderWeights(
            lambda weights: scores.of_rewards(weights) - scores.isotonic(weights), above_zero=True
        )


class Discrimination(Metric):
    """The Brier score of a constant minus that of the recalibrated rewards, at least 0.

    It is 0 if the success rate does not increase with the reward anywhere, and the uncertainty if rewards rank all
    follow-ups. It does not change if rewards are recalibrated by an increasing function. Noise increases it.
    """

    citation = _CITATION
    title, better = "Discrimination", "higher"
    description = (
        "What rewards know beyond the mean success rate, after the best monotone recalibration (CORP). Noise increases "
        "it."
    )

    def measure(self, rows: PrefixRows) -> UnderWeights:
        """Return S(c) - S(isotonic) under weights of the questions."""
        scores = _scores(rows)
        return UnderWeights(
            lambda weights: scores.constant(weights) - scores.isotonic(weights), above_zero=True
        )


class Uncertainty(Metric):
    """The Brier score of the mean success rate: the variance of the success rates of all prefixes, in [0, 1/4].

    It depends on the questions and the LLM only, so calibrators have the same value.
    """

    citation = _CITATION
    title = "Uncertainty"
    description = "Brier score of the mean success rate, which is the same for all calibrators (CORP)."

    def measure(self, rows: PrefixRows) -> UnderWeights:
        """Return S(c) under weights of the questions."""
        return UnderWeights(_scores(rows).constant)


class _Scores:
    """The scores S of the rewards, of their isotonic recalibration and of a constant, under weights of questions.

    Some neighbours get equal recalibrated rewards under all weights: see :func:`_runs`. They are added up once, before
    resamples are recalibrated.
    """

    def __init__(self, rows: PrefixRows) -> None:
        n, k, y = rows.follow_ups.astype(np.float64), rows.successes.astype(np.float64), rows.success_rate
        totals = np.stack([rows.totals(each) for each in (n, k, k * y, n * (rows.reward - y) ** 2)], axis=1)
        self._under = kept(lambda weights: weighted_totals(weights, totals).T)
        run = _runs(rows.reward, y)
        runs, questions = int(run.max()) + 1, len(rows.question_ids)
        cell = rows.question_index * runs + run
        self._of_runs = [
            np.bincount(cell, weights=each, minlength=questions * runs).reshape(questions, runs)
            for each in (n, k)
        ]
        self._of_what = content_digest(run, rows.question_index, rows.successes, rows.follow_ups)
        self.isotonic = kept(self._isotonic)

    def of_rewards(self, weights: Floats) -> Floats:
        """Compute S(r) under each row of `weights`."""
        n, _, _, errors = self._under(weights)
        return np.asarray(errors / n, dtype=np.float64)

    def constant(self, weights: Floats) -> Floats:
        """Compute S(c) under each row of `weights`: the variance of the success rates."""
        n, k, squares, _ = self._under(weights)
        return np.asarray(np.maximum(squares / n - (k / n) ** 2, 0.0), dtype=np.float64)

    def _isotonic(self, weights: Floats) -> Floats:
        """Compute S(isotonic) under each row of `weights`."""
        together = max(1, _ELEMENTS // self._of_runs[0].shape[1])
        parts = [weights[first : first + together] for first in range(0, len(weights), together)]
        explained = _remembered.recall(
            (self._of_what, _digest_of(weights)),
            lambda: np.concatenate([self._explained(part) for part in parts]),
        )
        n, _, squares, _ = self._under(weights)
        return np.asarray(np.maximum(squares - explained, 0.0) / n, dtype=np.float64)

    def _explained(self, weights: Floats) -> Floats:
        """Return the sum of n f^2 over all rows, for the recalibrated rewards f, under each row of `weights`.

        The sum of n (f - y)^2 is that of n y^2 - n f^2, because f is the mean of y within every block of equal f.
        """
        # It does the work of scikit-learn's IsotonicRegression. It takes long to import, and plans do not need it.
        from scipy.optimize import isotonic_regression

        # All resamples are fitted at once, with NaN before each. It is not above any number, so nothing is pooled
        # across it. Counts are whole numbers, whose sums are exact in any order.
        counts = np.empty((2, len(weights), self._of_runs[0].shape[1] + 1))
        counts[0, :, 0], counts[1, :, 0] = 1.0, np.nan
        counts[:, :, 1:] = [weights @ each for each in self._of_runs]
        n, k = counts.reshape(2, -1)
        there = np.flatnonzero(n > 0)
        n, rate = n[there], k[there] / n[there]
        explained = n * isotonic_regression(rate, weights=n).x ** 2
        starts = np.flatnonzero(np.isnan(rate))
        explained[starts] = 0.0
        return np.add.reduceat(explained, starts)


def _runs(reward: Floats, y: Floats) -> NDArray[np.intp]:
    """Return the run of each row, numbered from 0 by ascending rewards, of shape (rows,).

    Rows of a run have equal recalibrated rewards under all weights. These are rows with equal rewards, and neighbours
    of which those with the larger rewards do not have larger success rates.
    """
    order = np.argsort(reward, kind="stable")
    new = np.diff(reward[order], prepend=-1.0) > 0
    starts = np.flatnonzero(new)
    lowest, highest = (each.reduceat(y[order], starts) for each in (np.minimum, np.maximum))
    new[starts[1:]] = lowest[:-1] < highest[1:]
    run = np.empty(len(order), np.intp)
    run[order] = np.cumsum(new) - 1
    return run


@lru_cache(maxsize=2)
def _scores(rows: PrefixRows) -> _Scores:
    return _Scores(rows)
