"""Best-of-n + IAS: as many samples as the calibrated reward of the bare question asks for (section 4.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.strategy import Answered, Pool, PoolStrategy, Setting
from prmcal.registry.strategies.budgets import adaptive_samples
from prmcal.registry.strategies.exact import best_of_n, pass_at_n

__all__ = ["BestOfNWithIAS", "best_of_own", "target_of"]


class BestOfNWithIAS(PoolStrategy):
    """The best-scored of min(ceil(N_IAS), N) samples, N_IAS from the calibrated reward of the bare question.

    The original scores rank. A question too long for the PRM has no reward and gets the whole budget.
    """

    reads = ("scores", "rewards")
    targeted = True

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """In closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        samples = adaptive_samples(pool.rewards, target_of(setting), setting.samples)
        return best_of_own(pool, samples)


def best_of_own(pool: Pool, samples: NDArray[np.int64]) -> Answered:
    """The best-scored of a number of samples of each question's own.

    Parameters
    ----------
    pool : Pool
        With scores.
    samples : ndarray of shape (questions,), int64
        In [1, M].
    """
    counts, which = np.unique(samples, return_inverse=True)
    own = (np.arange(len(samples)), which)
    return Answered(
        accuracy=best_of_n(pool.scores, pool.correct, counts)[own],
        samples=samples.astype(np.float64),
        pass_at_samples=pass_at_n(pool.correct, counts)[own],
    )


def target_of(setting: Setting) -> float:
    """The target probability C of a targeted strategy.

    Raises
    ------
    ValueError
        If the setting has none.
    """
    if setting.target is None:
        raise ValueError("The setting has no target probability C. Give the grid one: scaling.targets.")
    return setting.target
