"""Strategies with one number of samples for every question, and what a perfect choice would make of it."""

from __future__ import annotations

import numpy as np

from prmcal.registry.contracts.strategy import Answered, Pool, PoolStrategy, Setting
from prmcal.registry.strategies.exact import best_of_n, pass_at_1, pass_at_n

__all__ = ["BestOfN", "FixedBudget", "PassAt1", "PassAtN"]


class FixedBudget(PoolStrategy):
    """Draws the same number of samples for every question.

    Parameters
    ----------
    samples : int, optional
        How many; the grid's fixed budget N if it is left out. At most N.
    """

    def __init__(self, samples: int | None = None) -> None:
        self.samples = samples

    def check_arguments(self) -> None:
        """Refuse a budget of nothing."""
        if self.samples is not None and self.samples < 1:
            raise ValueError(
                f"The 'samples' parameter must be an int in [1, inf) or left out. Got {self.samples} instead."
            )

    def count(self, setting: Setting) -> int:
        """How many samples it draws.

        Raises
        ------
        ValueError
            If they are more than the fixed budget of the grid.
        """
        count = self.samples or setting.samples
        if count > setting.samples:
            raise ValueError(
                f"'samples' is {count}, but the grid's fixed budget is {setting.samples}. Raise scaling.samples."
            )
        return count


class PassAt1(PoolStrategy):
    """One trajectory is drawn, and it is the answer."""

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """The share of right trajectories; see :meth:`prmcal.PoolStrategy.answer`."""
        return Answered(pass_at_1(pool.correct), np.ones(pool.questions))


class PassAtN(FixedBudget):
    """The right trajectory is picked whenever there is one: what no choice among N samples can exceed."""

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """1 - C(M - c, n) / C(M, n) with c right of M; see :meth:`prmcal.PoolStrategy.answer`."""
        count = self.count(setting)
        accuracy = pass_at_n(pool.correct, np.array([count]))[:, 0]
        return Answered(accuracy, np.full(pool.questions, float(count)), accuracy)


class BestOfN(FixedBudget):
    """The trajectory that the PRM scores highest (Brown et al., 2024; section 2 of the paper)."""

    reads = ("scores",)

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """In closed form, ties shared; see :meth:`prmcal.PoolStrategy.answer`."""
        counts = np.array([self.count(setting)])
        return Answered(
            accuracy=best_of_n(pool.scores, pool.correct, counts)[:, 0],
            samples=np.full(pool.questions, float(counts[0])),
            pass_at_samples=pass_at_n(pool.correct, counts)[:, 0],
        )
