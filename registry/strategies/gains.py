"""Marginal gains: the samples of all questions go where they help most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.ranges import FinitePositive
from prmcal.registry.contracts.strategy import Answered, Setting
from prmcal.registry.strategies.aggregation import Aggregate, RanksByScore
from prmcal.registry.strategies.exact import best_of_n, pass_at_n

__all__ = ["MarginalGains", "allocated"]

_SMALLEST_CHANCE = 1e-4


class MarginalGains(RanksByScore):
    """Give each sample to the question where it most raises the probability of a right one, and answer with the best.

    With the calibrated reward r of the bare question, the b-th sample raises the probability that one is right by
    r (1 - r)^(b - 1). The samples with the largest gains of all questions are drawn, `mean_samples` times the number of
    questions, but each question gets at least one and at most N. Gains decrease, so this is optimal for the sum of
    1 - (1 - r)^b. Samples with equal gains are equally likely to be drawn. Samples are ranked by their scores.

    Rewards are clipped to [1e-4, 1 - 1e-4], so a question without hope gets its second sample last. A question that is
    too long for the PRM has no reward, and gets `mean_samples`. The gains are those of a perfect choice among samples.

    Parameters
    ----------
    mean_samples : float, at least 1
        The mean number of samples of a question. If it exceeds the grid's fixed budget N, it is N.
    """

    citation = "Damani et al. (2025), ICLR, arXiv:2410.04707"
    reads = ("scores", "rewards")

    def __init__(self, mean_samples: FinitePositive = 8.0, aggregate: Aggregate = "last") -> None:
        super().__init__(aggregate)
        self.mean_samples = mean_samples

    def check_arguments(self) -> None:
        """Raise ValueError if there is less than one sample for each question."""
        if self.mean_samples < 1:
            raise ValueError(f"'mean_samples' must be a float in [1, inf). Got {self.mean_samples} instead.")

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        return self._results(pool, setting.samples, np.array([self.mean_samples]))[0]

    def sweep(self, pool: Pool, setting: Setting) -> tuple[Answered, ...]:
        """Return the results for means of 1 to N samples; see :meth:`prmcal.PoolStrategy.sweep`."""
        return self._results(pool, setting.samples, np.geomspace(1, setting.samples, 24))

    def _results(self, pool: Pool, most: int, means: NDArray[np.float64]) -> tuple[Answered, ...]:
        counts = np.arange(1, most + 1)
        best = best_of_n(self.scores_of(pool), pool.correct, counts)
        passed = pass_at_n(pool.correct, counts)
        results = []
        for mean in means:
            samples = allocated(pool.rewards, float(mean), most)
            results.append(Answered(_between(best, samples), samples, _between(passed, samples)))
        return tuple(results)


def allocated(rewards: NDArray[np.float64], mean: float, most: int) -> NDArray[np.float64]:
    """Return the expected number of samples of each question.

    Parameters
    ----------
    rewards : ndarray of shape (questions,), float64
        Success probabilities in [0, 1]; NaN where nothing is known.
    mean : float
        The mean number of samples of all questions, at least 1.
    most : int
        N, the largest number of samples of a question.

    Returns
    -------
    ndarray of shape (questions,), float64
        In [1, N]. With the fraction x above a whole number b, a question gets b + 1 samples with probability x and b
        otherwise.
    """
    samples = np.full(len(rewards), min(mean, float(most)))
    read = np.isfinite(rewards)
    if not read.any() or mean >= most:
        return samples
    chance = np.clip(rewards[read], _SMALLEST_CHANCE, 1 - _SMALLEST_CHANCE)
    gains = np.log(chance)[:, None] + np.log1p(-chance)[:, None] * np.arange(1, most)
    left = (mean - 1) * len(chance)
    levels, sizes = np.unique(-gains, return_counts=True)
    end = np.cumsum(sizes)
    level = int(np.searchsorted(end, left))
    before = end[level] - sizes[level]
    above = (-gains < levels[level]).sum(axis=1)
    tied = (-gains == levels[level]).sum(axis=1)
    samples[read] = 1 + above + tied * (left - before) / sizes[level]
    return samples


def _between(values: NDArray[np.float64], samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """The value at a number of samples that is between two whole numbers, in each row. Column 0 is that of 1 sample."""
    below = np.clip(np.floor(samples).astype(np.int64), 1, values.shape[1])
    share = samples - below
    rows = np.arange(len(values))
    above = values[rows, np.minimum(below, values.shape[1] - 1)]
    return np.asarray((1 - share) * values[rows, below - 1] + share * above, dtype=np.float64)
