"""Random orders of a pool, and whether the best-scored trajectory and the leading answer are right after each draw.

All strategies that draw one trajectory after another share the orders.

A sequential strategy decides from the drawn trajectories whether to draw one more. Its expectation over all orders of
the pool has no closed form in general. It is estimated by the mean over at least 256 orders, in at least 4 blocks. A
block is a Latin square: every trajectory is once the first, once the second, and so on. So the first draw, and with it
pass@1, has no error at all. At any draw, sums over single trajectories have none either. Such orders leave less error
than the same number of independent orders. Blocks are independent of each other, so the error is measured from their
means.

Answers are equal if their texts are equal. A trajectory without an answer does not vote. Answers with the same number
of votes are equally likely to win.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Bools, Floats, Ints
from prmcal.remembered import remembered

ORDERS = 256
"""The smallest number of orders."""

_LEAST_BLOCKS = 4
_SEED = 0
_UNITS = 2.0**40


@remembered
def orders_of(size: int) -> Ints:
    """Return the orders of a pool with M trajectories of each question, of shape (blocks, M, M).

    The order [block, i] begins with the trajectory i. Along the last axis, position 0 is drawn first.
    """
    blocks = max(_LEAST_BLOCKS, -(-ORDERS // size))
    random = np.random.default_rng(_SEED)
    # All orders of a block go around the same ring in the same steps, each from another trajectory. The steps are
    # random, so the first few trajectories of two orders have no more in common than by chance.
    ring, steps = random.random((blocks, size)).argsort(axis=1), random.random((blocks, size))
    steps[:, 0] = -1.0  # The first step is none.
    places = ring.argsort(axis=1)[:, :, None] + steps.argsort(axis=1)[:, None, :]
    return np.take_along_axis(ring[:, None, :], places % size, axis=2)


@remembered
def first_draws(size: int, draws: int) -> Ints:
    """Return the first N trajectories of all orders of a pool with M of each question, of shape (orders, N).

    The orders of a block are consecutive. In memory, the trajectories of one draw in all orders are neighbours, since
    the rules go from draw to draw.
    """
    return np.asfortranarray(orders_of(size).reshape(-1, size)[:, :draws])


def block_means(values: NDArray[Any], size: int) -> Floats:
    """Return the mean over each block of orders, of shape (..., blocks), for values of shape (..., blocks x M)."""
    blocks = values.reshape(*values.shape[:-1], -1, size)
    return np.asarray(blocks.sum(axis=-1) / size, dtype=np.float64)


def mean_of_blocks(means: Floats) -> tuple[Floats, Floats]:
    """Return the mean of means of blocks, of shape (..., blocks), and its standard error, each of shape (...)."""
    # Without the difference, rounding would leave equal means a tiny error.
    error = (means - means[..., :1]).std(axis=-1, ddof=1) / np.sqrt(means.shape[-1])
    return means.mean(axis=-1), np.asarray(error, dtype=np.float64)


@remembered
def right_if_best(scores: Floats, correct: Bools, orders: Ints) -> Floats:
    """Return whether the best-scored of the first 1, 2, ..., N trajectories is right, in [0, 1], of shape (orders, N).

    Scores or rewards, and correctness, have the shape (M,), and orders the shape (orders, N). NaN, where the input is
    too long for the PRM, ranks last. Trajectories with equal scores are equally likely to be chosen.
    """
    ranks = np.unique(np.where(np.isnan(scores), -np.inf, scores), return_inverse=True)[1]
    best, right_sum, tied_count = np.full(len(orders), -1), np.zeros(len(orders)), np.zeros(len(orders))
    shares = np.empty(orders.shape[::-1])
    for draw, trajectories in enumerate(orders.T):
        rank = ranks[trajectories]
        # What is better than the best so far begins anew, and what is as good joins.
        before, joins = rank <= best, rank >= best
        right_sum = right_sum * before + joins * correct[trajectories]
        tied_count = tied_count * before + joins
        best = np.maximum(best, rank)
        shares[draw] = right_sum / tied_count
    return shares.T


@dataclass(frozen=True, eq=False)
class Votes:
    """The votes among the first 1, 2, ..., N trajectories of each order. All arrays have the shape (orders, N)."""

    first: NDArray[np.signedinteger]
    second: NDArray[np.signedinteger]
    """The votes of the leader and of the runner-up, which are two different answers; 0 if there is none."""
    right: Floats
    """Whether the answer with most votes is right, in [0, 1]; 0 without a vote."""


@remembered
def count_votes(answers: Ints, correct: Bools, orders: Ints, weights: Floats | None = None) -> Votes:
    """Count the votes after each draw.

    Answers, which are numbers or -1 for none, and correctness have the shape (M,), and orders the shape (orders, N).
    `weights`, of shape (M,), are the weights of the votes in [0, 1], by default 1. They are rounded to 2^-40, so that
    sums do not depend on the order of the draws, and votes are counted in this unit.
    """
    answer_numbers, columns = numbered(answers), np.arange(len(orders))
    share_right = right_of_answers(answer_numbers, correct)
    # Single votes have the smallest type that can count them.
    single_votes = np.ones(len(answer_numbers), np.min_scalar_type(-len(answer_numbers) - 1))
    votes = single_votes if weights is None else np.rint(weights * _UNITS).astype(np.int64)
    # A row for each answer, and a last one for trajectories without an answer. No vote is -1, as a vote can weigh 0.
    rows_of_trajectories = np.where(answer_numbers < 0, len(share_right), answer_numbers)
    totals = np.full((len(share_right) + 1, len(orders)), -1, votes.dtype)
    first, second = (np.empty(orders.shape[::-1], votes.dtype) for _ in range(2))
    right = np.empty(first.shape)
    for draw, trajectories in enumerate(orders.T):
        places = rows_of_trajectories[trajectories], columns
        totals[places] = np.maximum(totals[places], 0) + votes[trajectories]
        highest = totals[:-1].max(axis=0)
        leads = totals[:-1] == highest
        leaders = leads.sum(axis=0)
        runner_up = np.where(leads, -1, totals[:-1]).max(axis=0)
        first[draw], second[draw] = highest, np.where(leaders > 1, highest, runner_up)
        right[draw] = np.where(highest < 0, 0.0, share_right @ leads / leaders)
    return Votes(np.maximum(first, 0).T, np.maximum(second, 0).T, right.T)


def numbered(answers: Ints) -> Ints:
    """Return the answers of one question as the numbers 0, 1, 2, ...; -1 stays -1."""
    return np.asarray(np.unique(answers, return_inverse=True)[1] - int(-1 in answers), dtype=np.int64)


def right_of_answers(answers: Ints, correct: Bools) -> Floats:
    """Return the share of right trajectories for each answer, of shape (answers,).

    Grades belong to answers, so it is 0 or 1, unless equal texts were graded differently.
    """
    voting = answers[answers >= 0]
    cast = np.bincount(voting, minlength=1)
    right_counts = np.bincount(voting, correct[answers >= 0], minlength=1)
    return np.asarray(right_counts / np.maximum(cast, 1), dtype=np.float64)
