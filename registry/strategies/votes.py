"""Strategies in which the trajectories vote for their answers, with or without weights.

Answers are equal if their texts are equal. A trajectory without an answer does not vote. Answers with the same number
of votes are equally likely to win.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, expit, gammaln

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, Setting
from prmcal.registry.strategies.exact import pass_at_n
from prmcal.registry.strategies.fixed import FixedBudget

__all__ = ["MajorityVote", "WeightedBestOfN", "majority_of_n"]

_DRAWS = 1000
# Sums of the same rewards in a different order differ in their last digits.
_EQUAL_DIGITS = 9


class MajorityVote(FixedBudget):
    """Answer with the most frequent answer of the samples (self-consistency, Wang et al., 2023). It needs no PRM."""

    citation = "Wang et al. (2023), ICLR, arXiv:2203.11171"

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the expectation exactly; see :meth:`prmcal.PoolStrategy.answer`."""
        count = self.count(setting)
        return Answered(
            accuracy=majority_of_n(pool.answers, pool.correct, count),
            samples=np.full(pool.questions, float(count)),
            pass_at_samples=pass_at_n(pool.correct, np.array([count]))[:, 0],
            fixed=True,
        )


class WeightedBestOfN(FixedBudget):
    """Answer with the answer that has the largest sum of rewards over its samples (Li et al., 2023).

    The result is exact if the whole pool is drawn. For n below M there is no closed form, so it is the mean of 1,000
    draws with a fixed seed. The standard error is at most .016 for a question, and .0016 over 100 questions.
    """

    citation = "Li et al. (2023), ACL, arXiv:2206.02336"
    reads = ("scores",)

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the mean over draws; see :meth:`prmcal.PoolStrategy.answer`.

        A trajectory that is too long for the PRM has the weight 0.
        """
        count = self.count(setting)
        weights = np.nan_to_num(expit(pool.scores), nan=0.0)
        random = np.random.default_rng(0)
        accuracy = np.zeros(pool.questions)
        draws = 1 if count == pool.size else _DRAWS
        for question, voted in enumerate(_voted(pool)):
            for _ in range(draws):
                drawn = random.permutation(pool.size)[:count]
                accuracy[question] += _won(
                    voted[drawn], pool.correct[question, drawn], weights[question, drawn]
                )
        return Answered(
            accuracy=accuracy / draws,
            samples=np.full(pool.questions, float(count)),
            pass_at_samples=pass_at_n(pool.correct, np.array([count]))[:, 0],
            fixed=True,
        )


def _voted(pool: Pool) -> NDArray[np.int64]:
    """Each question's answers as numbers from 0, or -1 for a trajectory that does not vote."""
    return np.array([np.unique(row, return_inverse=True)[1] - (-1 in row) for row in pool.answers])


def _won(answers: NDArray[np.int64], correct: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    """The probability that the winner of one vote is right."""
    voting = answers >= 0
    if not voting.any():
        return 0.0
    votes = np.round(np.bincount(answers[voting], weights[voting]), _EQUAL_DIGITS)
    cast = np.bincount(answers[voting])
    right = np.bincount(answers[voting], correct[voting]) / np.maximum(cast, 1)
    first = (votes == votes.max()) & (cast > 0)
    return float(right[first].mean())


def majority_of_n(answers: NDArray[np.int64], correct: NDArray[np.bool_], count: int) -> NDArray[np.float64]:
    """Return the exact probability that the most frequent answer of n drawn trajectories is right.

    Let c_a be the number of trajectories with answer a in the pool. The number of draws in which a has v votes and wins
    is C(c_a, v) times the coefficient of x^(n - v) in the product over the other answers b of sum_{j <= v} C(c_b, j)
    x^j. Terms with j = v are ties, in which each winner gets an equal share. For trajectories without an answer, j is
    not limited.

    Parameters
    ----------
    answers : ndarray of shape (questions, M), int64
        The answers as numbers, -1 for a trajectory without an answer.
    correct : ndarray of shape (questions, M), bool
    count : int
        n, in [1, M].

    Returns
    -------
    ndarray of shape (questions,), float64
        In [0, 1].
    """
    return np.array([_majority(*each, count) for each in zip(answers, correct, strict=True)])


def _majority(answers: NDArray[np.int64], correct: NDArray[np.bool_], count: int) -> float:
    names, index, sizes = np.unique(answers, return_inverse=True, return_counts=True)
    right = np.bincount(index, correct) / sizes
    total = 0.0
    log_all = _log_choose(len(answers), count)
    for own in np.flatnonzero((names >= 0) & (right > 0)):
        others = [(int(size), bool(name >= 0)) for name, size in zip(names, sizes, strict=True)]
        del others[own]
        for votes in range(1, min(int(sizes[own]), count) + 1):
            log_ways = _log_choose(int(sizes[own]), votes) - log_all
            total += right[own] * _shared_wins(others, votes, count - votes, log_ways)
    return min(total, 1.0)


def _shared_wins(others: list[tuple[int, bool]], votes: int, rest: int, log_ways: float) -> float:
    """The number of ways to draw `rest` other trajectories so that no answer has more than `votes` votes.

    Each way is divided by its number of winners. `ways[ties, drawn]` holds scaled counts, since binomials overflow.
    """
    ways = np.zeros((rest // votes + 1, rest + 1))
    ways[0, 0] = 1.0
    for size, votes_count in others:
        most = min(size, rest, votes - 1 if votes_count else size)
        chosen = comb(size, np.arange(most + 1))
        added = np.zeros_like(ways)
        for drawn, each in enumerate(chosen):
            added[:, drawn:] += each * ways[:, : rest + 1 - drawn]
        if votes_count and size >= votes and rest >= votes:
            added[1:, votes:] += comb(size, votes) * ways[:-1, : rest + 1 - votes]
        scale = added.max()
        if scale == 0.0:
            return 0.0
        ways, log_ways = added / scale, log_ways + float(np.log(scale))
    shares = ways[:, rest] / np.arange(1, len(ways) + 1)
    return float(shares.sum() * np.exp(log_ways))


def _log_choose(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
