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

from prmcal.registry.contracts.measured import UnderWeights, weighted_totals
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.rows import PrefixRows

__all__ = ["Discrimination", "Miscalibration", "Uncertainty"]

_CITATION = "Dimitriadis, Gneiting and Jordan (2021), PNAS 118"


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

    Prefixes with equal rewards get equal recalibrated rewards. Therefore they are first added up: a resample then
    needs the total follow-ups n, successes and squares of each distinct reward.
    """

    def __init__(self, rows: PrefixRows) -> None:
        n, y = rows.follow_ups.astype(np.float64), rows.success_rate
        self._follow_ups, self._successes, self._squares, self._errors = (
            rows.totals(each) for each in (n, n * y, n * y**2, n * (rows.reward - y) ** 2)
        )
        order = np.argsort(rows.reward, kind="stable")
        reward = rows.reward[order]
        self._question = rows.question_index[order]
        self._n, self._k = n[order], (n * y)[order]
        self._starts = np.flatnonzero(np.concatenate([[True], np.diff(reward) > 0]))
        self._computed: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def of_rewards(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute S(r) under each row of `weights`."""
        return weighted_totals(weights, self._errors) / weighted_totals(weights, self._follow_ups)

    def constant(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute S(c) under each row of `weights`: the variance of the success rates."""
        n, k, squares = (
            weighted_totals(weights, each) for each in (self._follow_ups, self._successes, self._squares)
        )
        variance: NDArray[np.float64] = np.maximum(squares / n - (k / n) ** 2, 0.0)
        return variance

    def isotonic(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute S(isotonic) under each row of `weights`."""
        if self._computed is not None and self._computed[0] is weights:
            return self._computed[1]
        explained = np.array([self._explained(row) for row in weights])
        n, squares = (weighted_totals(weights, each) for each in (self._follow_ups, self._squares))
        scores: NDArray[np.float64] = np.maximum(squares - explained, 0.0) / n
        if (
            not weights.flags.writeable
        ):  # The weights of a bootstrap: miscalibration and discrimination need them.
            self._computed = weights, scores
        return scores

    def _explained(self, weights: NDArray[np.float64]) -> float:
        """Return the sum of n f^2 over all rows, for the recalibrated rewards f.

        The sum of n (f - y)^2 is that of n y^2 - n f^2, because f is the mean of y within every block of equal f.
        """
        from scipy.optimize import isotonic_regression  # It takes long to import, and plans do not need it.

        own = weights[self._question]
        n = np.add.reduceat(own * self._n, self._starts)
        k = np.add.reduceat(own * self._k, self._starts)
        there = n > 0
        n, rate = n[there], k[there] / n[there]
        fitted = isotonic_regression(rate, weights=n).x
        return float((n * fitted**2).sum())


@lru_cache(maxsize=2)
def _scores(rows: PrefixRows) -> _Scores:
    return _Scores(rows)
