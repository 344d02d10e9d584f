"""Best-of-n + IAS, and its reference points.

With IAS, the number of samples depends on the calibrated reward of the bare question (section 4.1). Reference points
use the true success rates, or spend the same budget without rewards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, Setting
from prmcal.registry.strategies.aggregation import RanksByScore
from prmcal.registry.strategies.budgets import adaptive_samples
from prmcal.registry.strategies.exact import best_of_each, best_of_n, pass_at_each, pass_at_n

__all__ = ["BestOfNWithIAS", "FixedOfEqualCost", "OracleIAS", "RandomBudget", "target_of"]


class BestOfNWithIAS(RanksByScore):
    """Answer with the best-scored of min(ceil(N_IAS), N) samples.

    N_IAS is computed from the calibrated reward of the bare question. Samples are ranked by their uncalibrated scores.
    A question that is too long for the PRM has no reward and gets the whole budget N.
    """

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338"
    reads = ("scores", "rewards")
    targeted = True

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        samples = adaptive_samples(pool.rewards, target_of(setting), setting.samples)
        return _best_of_own(pool, samples, self.scores_of(pool), setting.samples)


class OracleIAS(RanksByScore):
    """Best-of-n + IAS with the success rate of each question in place of the calibrated reward.

    The success rate is that of the bare question's follow-ups, which are independent of the pool. It must not come
    from the trajectories on which the strategy is judged. A question whose trajectories in the pool are right more
    often than its success probability would then get fewer samples, and these would be right more often than new ones:
    the accuracy would be too high. With independent follow-ups, the accuracy is without bias for the numbers of samples
    that were chosen. With n follow-ups, the success rate has a standard error of at most 1 / (2 sqrt(n)), so an oracle
    with more follow-ups would spend its samples slightly better.
    """

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338"
    reads = ("scores", "success")
    targeted = True
    reference = True

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        samples = adaptive_samples(pool.success, target_of(setting), setting.samples)
        return _best_of_own(pool, samples, self.scores_of(pool), setting.samples)


class _OfEqualCost(RanksByScore):
    """A reference point with the cost of best-of-n + IAS. Its curve would be that of a fixed n."""

    reads = ("scores", "rewards")
    targeted = True
    reference = True

    @property
    def in_league(self) -> bool:
        """A curve of it would say nothing new."""
        return False


class RandomBudget(_OfEqualCost):
    """Best-of-n + IAS with its budgets assigned to the questions at random.

    The mean cost is that of best-of-n + IAS. The difference in accuracy shows the value of knowing which questions are
    hard. Every question is equally likely to get each budget, so its cost and accuracy are means over all budgets.
    """

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        samples = adaptive_samples(pool.rewards, target_of(setting), setting.samples)
        counts, times = np.unique(samples, return_counts=True)
        return _mixed(pool, self.scores_of(pool), counts, times / times.sum(), samples)


class FixedOfEqualCost(_OfEqualCost):
    """Best-of-n with the same n for every question, and the mean cost of best-of-n + IAS.

    If the mean is not an integer, each question gets the integer below or above it, with probabilities that give the
    mean.
    """

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        samples = adaptive_samples(pool.rewards, target_of(setting), setting.samples)
        mean = samples.mean()
        below = int(np.floor(mean))
        above = min(below + 1, setting.samples)
        share = mean - below
        chances = np.array([1 - share, share])
        return _mixed(pool, self.scores_of(pool), np.array([below, above]), chances, samples)


def target_of(setting: Setting) -> float:
    """Return the target probability C of a targeted strategy.

    Raises
    ------
    ValueError
        If the setting has no target.
    """
    if setting.target is None:
        raise ValueError("The setting has no target probability C. Set scaling.targets in the grid.")
    return setting.target


def _best_of_own(pool: Pool, samples: NDArray[np.int64], scores: NDArray[np.float64], most: int) -> Answered:
    """Answer each question with the best-scored of its own number of samples.

    Parameters
    ----------
    pool : Pool
    samples : ndarray of shape (questions,), int64
        The number of samples of each question, in [1, N].
    scores : ndarray of shape (questions, M), float64
        What trajectories are ranked by.
    most : int
        N.
    """
    own = (np.arange(len(samples)), samples - 1)
    return Answered(
        accuracy=best_of_each(scores, pool.correct, most)[own],
        samples=samples.astype(np.float64),
        pass_at_samples=pass_at_each(pool.correct, most)[own],
    )


def _mixed(
    pool: Pool,
    scores: NDArray[np.float64],
    counts: NDArray[np.int64],
    chances: NDArray[np.float64],
    samples: NDArray[np.int64],
) -> Answered:
    """Best-of-n where each question has the same probability for each n, from which the mean of `samples` results."""
    return Answered(
        accuracy=np.einsum("qn,n->q", best_of_n(scores, pool.correct, counts), chances),
        samples=np.full(pool.questions, float(np.sum(counts * chances))),
        pass_at_samples=np.einsum("qn,n->q", pass_at_n(pool.correct, counts), chances),
        estimated_from=samples.astype(np.float64),
    )
