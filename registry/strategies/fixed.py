"""Strategies with the same number of samples for every question."""

from __future__ import annotations

import numpy as np

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.ranges import Count
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting
from prmcal.registry.strategies.exact import best_of_n, pass_at_1, pass_at_n

__all__ = ["BestOfN", "FixedBudget", "PassAt1", "PassAtN"]


class FixedBudget(PoolStrategy):
    """Draw the same number of samples for every question.

    Parameters
    ----------
    samples : int, optional
        The number of samples, at most the grid's fixed budget N. The default is N.
    """

    def __init__(self, samples: Count | None = None) -> None:
        self.samples = samples

    def count(self, setting: Setting) -> int:
        """Return the number of samples.

        Raises
        ------
        ValueError
            If it exceeds the fixed budget of the grid.
        """
        count = self.samples or setting.samples
        if count > setting.samples:
            raise ValueError(
                f"'samples' is {count}, but the grid's fixed budget is {setting.samples}. Raise scaling.samples."
            )
        return count


class PassAt1(PoolStrategy):
    """Draw one trajectory, and answer with it."""

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the share of right trajectories; see :meth:`prmcal.PoolStrategy.answer`."""
        return Answered(pass_at_1(pool.correct), np.ones(pool.questions), fixed=True)


class PassAtN(FixedBudget):
    """Answer with a right trajectory if there is one. This is an upper bound for any choice among N samples."""

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute 1 - C(M - c, n) / C(M, n) for c right of M; see :meth:`prmcal.PoolStrategy.answer`."""
        count = self.count(setting)
        accuracy = pass_at_n(pool.correct, np.array([count]))[:, 0]
        return Answered(accuracy, np.full(pool.questions, float(count)), accuracy, fixed=True)


class BestOfN(FixedBudget):
    """Answer with the trajectory that has the highest score (Brown et al., 2024; section 2 of the paper)."""

    citation = "Brown et al. (2024), arXiv:2407.21787"
    reads = ("scores",)

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation in closed form; see :meth:`prmcal.PoolStrategy.answer`."""
        counts = np.array([self.count(setting)])
        return Answered(
            accuracy=best_of_n(pool.scores, pool.correct, counts)[:, 0],
            samples=np.full(pool.questions, float(counts[0])),
            pass_at_samples=pass_at_n(pool.correct, counts)[:, 0],
            fixed=True,
        )
