"""The CORP decomposition of the Brier score: miscalibration, discrimination and uncertainty.

S(f) is the mean of (f - y)^2 over all follow-ups: each prefix counts n times. With the isotonic regression of y on the
rewards, whose values are the recalibrated rewards, and the mean success rate c,

    miscalibration = S(r) - S(isotonic),  discrimination = S(c) - S(isotonic),  uncertainty = S(c),

so that S(r) = miscalibration - discrimination + uncertainty, exactly and without bins. Source: Dimitriadis, Gneiting
and Jordan (2021), "Stable reliability diagrams for probabilistic classifiers", PNAS 118, equation 5. The isotonic
regression is fitted to the same follow-ups, which increases miscalibration and discrimination.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Floats
from prmcal.registry.contracts.metric import Metric, PrefixRows, UnderWeights
from prmcal.remembered import Memory, content_digest, kept
from prmcal.resamples import weighted_totals

_CITATION = "Dimitriadis, Gneiting and Jordan (2021), PNAS 118"
# Rewards of calibrators that keep the order are recalibrated to the same, so the results are remembered.
_remembered, _digest_of = Memory(8 * 2**20), kept(content_digest)
_ELEMENTS = 40_000
"""Resamples times rewards that are recalibrated at once. They fit into a processor's cache."""


class Miscalibration(Metric):
    """How much the isotonic recalibration of the rewards lowers the Brier score, at least 0.

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
    """How much lower the Brier score of the recalibrated rewards is than that of a constant, at least 0.

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
        variance: Floats = np.maximum(squares / n - (k / n) ** 2, 0.0)
        return variance

    def _isotonic(self, weights: Floats) -> Floats:
        """Compute S(isotonic) under each row of `weights`."""
        together = max(1, _ELEMENTS // self._of_runs[0].shape[1])
        parts = [weights[first : first + together] for first in range(0, len(weights), together)]
        explained = _remembered.recall(
            (self._of_what, _digest_of(weights)),
            lambda: np.concatenate([self._explained(part) for part in parts]),
        )
        n, _, squares, _ = self._under(weights)
        scores: Floats = np.maximum(squares - explained, 0.0) / n
        return scores

    def _explained(self, weights: Floats) -> Floats:
        """Return the sum of n f^2 over all rows, for the recalibrated rewards f, under each row of `weights`.

        The sum of n (f - y)^2 is that of n y^2 - n f^2, because f is the mean of y within every block of equal f.
        """
        from scipy.optimize import isotonic_regression  # It takes long to import, and plans do not need it.

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
