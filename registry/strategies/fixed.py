"""Strategies with the same number of samples for every question."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.ranges import Count
from prmcal.registry.contracts.strategy import (
    Answered,
    Choice,
    PoolStrategy,
    Setting,
    most_probable,
)
from prmcal.registry.strategies.aggregation import Aggregate, RanksByScore
from prmcal.registry.strategies.exact import best_of_n, pass_at_1, pass_at_n

__all__ = ["BestOfN", "FixedBudget", "PassAt1", "PassAtN", "count_of", "curve_counts"]

_POINTS = 24


class FixedBudget(PoolStrategy):
    """Draw the same number of samples for every question.

    A subclass says in `accuracies` how often the answer is right. The curve is over numbers of samples.

    Parameters
    ----------
    samples : int, optional
        The number of samples, at most the grid's fixed budget N. The default is N.
    """

    def __init__(self, samples: Count | None = None) -> None:
        self.samples = samples

    @abstractmethod
    def accuracies(
        self, pool: Pool, counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return the expected accuracy with n samples, and its standard error.

        Parameters
        ----------
        pool : Pool
        counts : ndarray of shape (N,), int64
            The values of n, each in [1, M].

        Returns
        -------
        accuracy : ndarray of shape (questions, N), float64
        order_error : ndarray of shape (questions, N), float64, or None
            None if the accuracy is exact. It is also exact where the error is 0 for all questions.
        """

    @property
    def in_league(self) -> bool:
        """Its curve has all numbers of samples, so a fixed one would say nothing new."""
        return self.samples is None

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation over all draws; see :meth:`prmcal.PoolStrategy.answer`."""
        return self._results(pool, np.array([self.count(setting)]))[0]

    def sweep(self, pool: Pool, setting: Setting) -> tuple[Answered, ...]:
        """Return the results with 1 to N samples; see :meth:`prmcal.PoolStrategy.sweep`."""
        return self._results(pool, curve_counts(setting.samples))

    def count(self, setting: Setting) -> int:
        """Return the number of samples.

        Raises
        ------
        ValueError
            If it exceeds the fixed budget of the grid.
        """
        return count_of("samples", self.samples, setting)

    def needed(self, pool: Pool, drawn: NDArray[np.int64], setting: Setting) -> NDArray[np.int64]:
        """Return the number of samples; see :meth:`prmcal.PoolStrategy.needed`."""
        return np.full(pool.questions, self.count(setting))

    def choose(self, pool: Pool, setting: Setting) -> Choice:
        """Return the answer that is most probably given; see :meth:`prmcal.PoolStrategy.choose`."""
        whole = np.array([pool.size])
        return Choice(most_probable(pool, lambda graded: float(self.accuracies(graded, whole)[0][0, 0])))

    def _results(self, pool: Pool, counts: NDArray[np.int64]) -> tuple[Answered, ...]:
        accuracy, error = self.accuracies(pool, counts)
        passed = pass_at_n(pool.correct, counts)
        return tuple(
            Answered(
                accuracy=accuracy[:, place],
                samples=np.full(pool.questions, float(count)),
                pass_at_samples=passed[:, place],
                fixed=True,
                order_error=None if error is None or not error[:, place].any() else error[:, place],
            )
            for place, count in enumerate(counts)
        )


class PassAt1(PoolStrategy):
    """Draw one trajectory, and answer with it."""

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the share of right trajectories; see :meth:`prmcal.PoolStrategy.answer`."""
        return Answered(pass_at_1(pool.correct), np.ones(pool.questions), fixed=True)


class PassAtN(FixedBudget):
    """Answer with a right trajectory if there is one. This is an upper bound for any choice among N samples."""

    reference = True

    def accuracies(self, pool: Pool, counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], None]:
        """Compute 1 - C(M - c, n) / C(M, n) for c right of M."""
        return pass_at_n(pool.correct, counts), None


class BestOfN(FixedBudget, RanksByScore):
    """Answer with the trajectory that has the highest score (Brown et al., 2024; section 2 of the paper)."""

    citation = "Brown et al. (2024), arXiv:2407.21787"
    reads = ("scores",)

    def __init__(self, samples: Count | None = None, aggregate: Aggregate = "last") -> None:
        FixedBudget.__init__(self, samples)
        RanksByScore.__init__(self, aggregate)

    def accuracies(self, pool: Pool, counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], None]:
        """Compute the expectation in closed form."""
        return best_of_n(self.scores_of(pool), pool.correct, counts), None


def curve_counts(most: int) -> NDArray[np.int64]:
    """Return the numbers of samples of a curve: about 24 from 1 to `most`, in about equal ratios, and powers of 2."""
    spread = np.rint(np.geomspace(1, most, _POINTS)).astype(np.int64)
    return np.union1d(spread, 2 ** np.arange(int(most).bit_length()))


def count_of(argument: str, count: int | None, setting: Setting) -> int:
    """Return a number of samples that an argument gives; N if it is None.

    Raises
    ------
    ValueError
        If it exceeds the fixed budget N of the grid. The message names the argument.
    """
    count = count or setting.samples
    if count > setting.samples:
        raise ValueError(
            f"'{argument}' is {count}, but the grid's fixed budget is {setting.samples}. Raise scaling.samples."
        )
    return count
