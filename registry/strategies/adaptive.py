"""Best-of-n + IAS: the number of samples depends on the calibrated reward of the bare question (section 4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, Setting
from prmcal.registry.strategies.aggregation import RanksByScore
from prmcal.registry.strategies.budgets import adaptive_samples
from prmcal.registry.strategies.exact import best_of_n, pass_at_n

__all__ = ["BestOfNWithIAS", "best_of_own", "target_of"]


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
        return best_of_own(pool, samples, self.scores_of(pool))


def best_of_own(pool: Pool, samples: NDArray[np.int64], scores: NDArray[np.float64]) -> Answered:
    """Answer each question with the best-scored of its own number of samples.

    Parameters
    ----------
    pool : Pool
    samples : ndarray of shape (questions,), int64
        The number of samples of each question, in [1, M].
    scores : ndarray of shape (questions, M), float64
        What trajectories are ranked by.
    """
    counts, which = np.unique(samples, return_inverse=True)
    own = (np.arange(len(samples)), which)
    return Answered(
        accuracy=best_of_n(scores, pool.correct, counts)[own],
        samples=samples.astype(np.float64),
        pass_at_samples=pass_at_n(pool.correct, counts)[own],
    )


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
