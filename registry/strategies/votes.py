"""Votes of trajectories for their answers, after each draw, and the strategies that answer by them.

Answers are equal if their texts are equal. A trajectory without an answer does not vote. Answers with the same number
of votes are equally likely to win.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, expit, gammaln

from prmcal.arrays import Bools, Floats, Ints
from prmcal.registry.contracts.pool import SCORES, Pool
from prmcal.registry.strategies.best_of import FixedBudget, RanksByScore
from prmcal.registry.strategies.orders import Orders, block_means, mean_of_blocks
from prmcal.remembered import remembered

_UNITS = 2.0**40


@remembered
def right_if_best(scores: Floats, correct: Bools, orders: Orders) -> Floats:
    """Return whether the best-scored of the first 1, 2, ..., N trajectories is right, in [0, 1], of shape (orders, N).

    Scores or rewards, and correctness, have the shape (M,). NaN, where the input is too long for the PRM, ranks last.
    Trajectories with equal scores are equally likely to be chosen.
    """
    ranks = np.unique(np.where(np.isnan(scores), -np.inf, scores), return_inverse=True)[1]
    found = np.empty(orders.shape[::-1])
    best, right, tied = np.full(found.shape[1], -1), np.zeros(found.shape[1]), np.zeros(found.shape[1])
    for draw, drawn in enumerate(orders.trajectories.T):
        rank = ranks.take(drawn)
        # What is better than the best so far begins anew, and what is as good joins.
        before, joins = rank <= best, rank >= best
        right = right * before + joins * correct.take(drawn)
        tied = tied * before + joins
        np.maximum(best, rank, out=best)
        np.divide(right, tied, out=found[draw])
    return found.T


@dataclass(frozen=True, eq=False)
class Votes:
    """The votes among the first 1, 2, ..., N trajectories of each order. All arrays have shape (orders, N)."""

    first: NDArray[np.signedinteger]
    second: NDArray[np.signedinteger]
    """The votes of the leader and of the runner-up, which are two different answers; 0 if there is none."""
    right: Floats
    """The result of :func:`right_if_most_votes`."""


@remembered
def count_votes(answers: Ints, correct: Bools, orders: Orders) -> Votes:
    """Count the votes after each draw, from answers as numbers and their correctness, both of shape (M,).

    A trajectory without an answer, -1, does not vote.
    """
    return _counted(answers, correct, orders, _ones(answers))


@remembered
def right_if_most_votes(
    answers: Ints, correct: Bools, orders: Orders, weights: Floats | None = None
) -> Floats:
    """Return whether the answer with most votes among the first 1, 2, ..., N trajectories is right, in [0, 1].

    The result has the shape (orders, N), and all other arrays have (M,). Answers are numbers; -1 is for a trajectory
    without an answer, which does not vote. Answers with equal votes are equally likely to win. Without a vote it is 0.
    `weights` are those of the votes in [0, 1], by default 1. They are rounded to 2^-40, so that sums do not depend on
    the order of the draws.
    """
    votes = _ones(answers) if weights is None else np.rint(weights * _UNITS).astype(np.int64)
    return _counted(answers, correct, orders, votes).right


def _counted(answers: Ints, correct: Bools, orders: Orders, votes: NDArray[np.signedinteger]) -> Votes:
    """Count votes of shape (M,)."""
    named, draws = numbered(answers), orders.trajectories.T
    share, count = right_of_answers(named, correct), _ones(answers).dtype
    # An answer has -1 votes until its first one, since a vote can have the weight 0. None has -1 votes for ever.
    votes = np.where(named < 0, -1, votes).astype(votes.dtype)
    sums = np.full((_classes(named) + 1) * draws.shape[1], -1, votes.dtype)
    most, leader = np.full(draws.shape[1], -1, votes.dtype), np.full(draws.shape[1], -1)
    runner_up, tied, won = (np.zeros(len(most), each) for each in (votes.dtype, count, float))
    first, second = (np.empty(draws.shape, votes.dtype) for _ in range(2))
    right = np.empty(draws.shape)
    for draw, place in enumerate(places_of(named, orders)):
        drawn, before = named.take(draws[draw]), sums.take(place)
        after = np.maximum(before, 0) + votes.take(draws[draw])
        sums[place] = after
        np.maximum(runner_up, np.where(drawn == leader, 0, np.minimum(after, most)), out=runner_up)
        leads, joins = after > most, (after == most) & (after > before)
        leader = np.where(leads, drawn, leader)
        tied = np.where(leads, 1, tied + joins)
        won = np.where(leads, 0.0, won) + (leads | joins) * share.take(drawn)
        np.maximum(most, after, out=most)
        first[draw], second[draw] = np.maximum(most, 0), runner_up
        right[draw] = won / np.maximum(tied, 1)
    return Votes(first.T, second.T, right.T)


def places_of(named: Ints, orders: Orders) -> Iterator[Ints]:
    """Yield for each draw the places of the answers that are drawn, of shape (orders,).

    They are places in a flat table of shape (answers + 1, orders). Its last row is that of trajectories without an
    answer.
    """
    columns = np.arange(len(orders.trajectories))
    rows = np.where(named < 0, _classes(named), named) * len(columns)
    for drawn in orders.trajectories.T:
        yield rows.take(drawn) + columns


def _classes(named: Ints) -> int:
    """The number of answers that are numbered from 0 upwards, or 1 if there is none."""
    return max(int(named.max()) + 1, 1)


def _ones(named: Ints) -> NDArray[np.signedinteger]:
    """One vote for each trajectory, in the smallest type that can count them."""
    return np.ones(len(named), np.min_scalar_type(-len(named) - 1))


def numbered(answers: Ints) -> Ints:
    """Return the answers of one question as the numbers 0, 1, 2, ...; -1 stays -1."""
    return np.asarray(np.unique(answers, return_inverse=True)[1] - int(-1 in answers), dtype=np.int64)


def right_of_answers(answers: Ints, correct: Bools) -> Floats:
    """Return the share of right ones among the trajectories with each answer, of shape (answers,).

    Grades belong to answers, so it is 0 or 1, unless equal texts were graded differently.
    """
    voting = answers >= 0
    cast = np.bincount(answers[voting], minlength=_classes(answers))
    right = np.bincount(answers[voting], correct[voting], minlength=_classes(answers))
    return np.asarray(right / np.maximum(cast, 1), dtype=np.float64)


class MajorityVote(FixedBudget):
    """Answer with the most frequent answer of the samples (self-consistency, Wang et al., 2023). It needs no PRM."""

    citation = "Wang et al. (2023), ICLR, arXiv:2203.11171"

    def accuracies(self, pool: Pool, counts: Ints) -> tuple[Floats, Floats | None]:
        """Compute the expectation: exactly for one n, which takes a while, and over the shared orders for several."""
        if len(counts) > 1:
            return _over_orders(pool, None, counts)
        return majority_of_n(pool.answers, pool.correct, int(counts[0]))[:, None], None


@dataclass(eq=False)
class WeightedBestOfN(FixedBudget, RanksByScore):
    """Answer with the answer that has the largest sum of rewards over its samples (Li et al., 2023).

    The result is exact if the whole pool is drawn. For n below M there is no closed form, so it is the mean over the
    random orders that all strategies share. A trajectory that is too long for the PRM has the weight 0.
    """

    version = "2"
    citation = "Li et al. (2023), ACL, arXiv:2206.02336"
    reads = SCORES

    weights: Literal["raw", "calibrated"] = "raw"
    """The rewards: those of the PRM itself, or the calibrated ones of whole trajectories at the level nearest to the
    median."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights == "calibrated":
            self.reads = ("trajectory_rewards",)

    def check_arguments(self) -> None:
        """Raise ValueError if steps are to be aggregated of rewards that exist for whole trajectories only."""
        if self.weights == "calibrated" and self.aggregate != "last":
            raise ValueError(
                f"'aggregate' must be 'last' if 'weights' is 'calibrated'. Got {self.aggregate!r} instead."
            )

    def accuracies(self, pool: Pool, counts: Ints) -> tuple[Floats, Floats]:
        """Compute the mean over the shared orders."""
        return _over_orders(pool, self._weights(pool), counts)

    def identity(self) -> dict[str, Any]:
        """Return what decides its output. With the whole pool it is what it was before `weights` and orders came."""
        known = super().identity()
        if self.weights == "raw":
            known["arguments"].pop("weights", None)
        return known if self.samples or self.weights != "raw" else {**known, "version": "1"}

    def _weights(self, pool: Pool) -> Floats:
        if self.weights == "raw":
            return np.asarray(np.nan_to_num(expit(self.scores_of(pool)), nan=0.0), dtype=np.float64)
        middle = int(np.argmin(np.abs(np.array(pool.levels) - 0.5)))
        return np.nan_to_num(pool.trajectory_rewards[..., middle], nan=0.0)


def _over_orders(pool: Pool, weights: Floats | None, counts: Ints) -> tuple[Floats, Floats]:
    """The mean and its error over the shared orders, for each question and n. The whole pool leaves no error."""
    orders = Orders(pool.size, int(counts.max()))
    means = np.empty((pool.questions, len(counts), len(orders.trajectories) // pool.size))
    for question in range(pool.questions):
        own = None if weights is None else weights[question]
        right = right_if_most_votes(pool.answers[question], pool.correct[question], orders, own)
        means[question] = block_means(right.T[counts - 1], pool.size)
    accuracy, error = mean_of_blocks(means)
    return accuracy, np.where(counts < pool.size, error, 0.0)


def majority_of_n(answers: Ints, correct: Bools, count: int) -> Floats:
    """Return the exact probability that the most frequent answer of n drawn trajectories is right.

    Let c_a be the number of trajectories with answer a in the pool. The number of draws in which a has v votes and wins
    is C(c_a, v) times the coefficient of x^(n - v) in the product over the other answers b of sum_{j <= v} C(c_b, j)
    x^j. Terms with j = v are ties, in which each winner gets an equal share. For trajectories without an answer, j is
    not limited.

    Answers, as numbers or -1 for none, and correctness have the shape (questions, M), and the result (questions,). n is
    in [1, M].
    """
    return np.array([_majority(*each, count) for each in zip(answers, correct, strict=True)])


def _majority(answers: Ints, correct: Bools, count: int) -> float:
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
