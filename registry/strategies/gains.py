"""Marginal gains: the samples of all questions go where they help most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.ranges import FinitePositive
from prmcal.registry.contracts.strategy import Answered, Setting
from prmcal.registry.strategies.aggregation import Aggregate, RanksByScore
from prmcal.registry.strategies.exact import best_of_each, pass_at_each

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
        samples = allocated(pool.rewards, means, most)
        accuracy = _between(best_of_each(self.scores_of(pool), pool.correct, most), samples)
        passed = _between(pass_at_each(pool.correct, most), samples)
        return tuple(map(Answered, accuracy, samples, passed))


def allocated(rewards: NDArray[np.float64], means: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return the expected number of samples of each question, for each mean.

    Parameters
    ----------
    rewards : ndarray of shape (questions,), float64
        Success probabilities in [0, 1]; NaN where nothing is known.
    means : ndarray of shape (means,), float64
        The mean number of samples of all questions, at least 1.
    most : int
        N, the largest number of samples of a question.

    Returns
    -------
    ndarray of shape (means, questions), float64
        In [1, N]. With the fraction x above a whole number b, a question gets b + 1 samples with probability x and b
        otherwise.
    """
    samples = np.repeat(np.minimum(means, most)[:, None], len(rewards), axis=1)
    read = np.isfinite(rewards)
    if not read.any():
        return samples
    chance = np.clip(rewards[read], _SMALLEST_CHANCE, 1 - _SMALLEST_CHANCE)
    # Logarithms, negated so that they ascend from the sample that helps most.
    negated_gains = -(np.log(chance)[:, None] + np.log1p(-chance)[:, None] * np.arange(1, most))
    levels, sizes = np.unique(negated_gains, return_counts=True)
    end = np.cumsum(sizes)
    for own, mean in zip(samples, means, strict=True):
        if mean < most:
            left = (mean - 1) * len(chance)
            level = int(np.searchsorted(end, left))
            before = end[level] - sizes[level]
            above = (negated_gains < levels[level]).sum(axis=1)
            tied = (negated_gains == levels[level]).sum(axis=1)
            own[read] = 1 + above + tied * (left - before) / sizes[level]
    return samples


def _between(values: NDArray[np.float64], samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values of questions at numbers of samples that are between two whole numbers.

    Column 0 of `values`, of shape (questions, N), is that of 1 sample. `samples` has shape (means, questions).
    """
    below = np.clip(np.floor(samples).astype(np.int64), 1, values.shape[1])
    share = samples - below
    rows = np.arange(len(values))
    above = values[rows, np.minimum(below, values.shape[1] - 1)]
    return np.asarray((1 - share) * values[rows, below - 1] + share * above, dtype=np.float64)
