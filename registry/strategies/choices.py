"""Which answer is chosen after each draw, and whether it is right: the best-scored one, or the one with most votes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.strategies.orders import Orders, highest_so_far
from prmcal.registry.strategies.remembered import remembered

__all__ = ["Votes", "count_votes", "numbered", "right_if_best", "right_of_answers"]

_UNITS = 2.0**40
_NO_VOTE = -(2**62)


@remembered
def right_if_best(
    scores: NDArray[np.float64], correct: NDArray[np.bool_], orders: Orders
) -> NDArray[np.float64]:
    """Return whether the best-scored of the first 1, 2, ..., N trajectories is right.

    Trajectories with equal scores are equally likely to be chosen.

    Parameters
    ----------
    scores, correct : ndarray of shape (M,)
        Scores or rewards, NaN where the input is too long for the PRM, which ranks last.
    orders : Orders

    Returns
    -------
    ndarray of shape (orders, N), float64
        In [0, 1].
    """
    ranks = np.unique(np.where(np.isnan(scores), -np.inf, scores), return_inverse=True)[1]
    share = np.bincount(ranks, correct) / np.bincount(ranks)
    best = highest_so_far(orders.of(ranks.astype(np.int32)))
    found = np.asarray(share[best.T].T, dtype=np.float64)
    for mixed in np.flatnonzero((share > 0) & (share < 1)):  # Only here does it matter which ones are drawn.
        tied = orders.of(ranks == mixed).cumsum(axis=1)
        right = orders.of((ranks == mixed) & correct).cumsum(axis=1)
        np.divide(right, tied, out=found, where=best == mixed)
    return found


@dataclass(frozen=True, eq=False)
class Votes:
    """The votes among the first 1, 2, ..., N trajectories of each order. All arrays have shape (orders, N).

    Attributes
    ----------
    first, second : ndarray of int
        The votes of the leader and of the runner-up, which are two different answers; 0 if there is none. With
        weights, they are in units of 2^-40.
    discovered : ndarray of int
        The leader is the answer that appeared as the first (1), second (2), ... of all; 0 if there is none.
        Of answers with equal votes, the one that had them first leads.
    right : ndarray of float64
        Probability in [0, 1] that the winner is right. Answers with equal votes are equally likely to win. Without a
        vote it is 0.
    """

    first: NDArray[np.signedinteger]
    second: NDArray[np.signedinteger]
    discovered: NDArray[np.signedinteger]
    right: NDArray[np.float64]


@remembered
def count_votes(
    answers: NDArray[np.int64],
    correct: NDArray[np.bool_],
    orders: Orders,
    weights: NDArray[np.float64] | None = None,
) -> Votes:
    """Count the votes after each draw.

    Parameters
    ----------
    answers : ndarray of shape (M,), int64
        The answers as numbers; -1 for a trajectory without an answer, which does not vote.
    correct : ndarray of shape (M,), bool
    orders : Orders
    weights : ndarray of shape (M,), float64, optional
        The weight of each vote in [0, 1]. It is rounded to 2^-40, so that sums do not depend on the order of the
        draws. The default is 1 vote each.
    """
    named = numbered(answers)
    share = right_of_answers(named, correct)
    size = len(share) + 1
    votes = np.ones(len(named), np.int64) if weights is None else np.rint(weights * _UNITS).astype(np.int64)
    rows = np.arange(len(orders.trajectories)) * size
    # The last answer stands for none. It never gets a vote.
    answer_of = orders.of(np.where(named < 0, len(share), named))
    votes_of = orders.of(np.where(named < 0, _NO_VOTE, votes))
    share = np.append(share, 0.0)
    sums, number = np.full(len(rows) * size, -1), np.zeros(len(rows) * size, np.int64)
    leader, known = rows + len(share) - 1, np.zeros(len(rows), np.int64)
    first, second = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
    tied, right = np.zeros(len(rows)), np.zeros(len(rows))
    count = np.int16 if weights is None else np.int64
    shape = answer_of.shape[::-1]
    firsts, seconds, discovered = (np.empty(shape, count) for _ in range(3))
    rights = np.empty(shape)
    for draw in range(len(rights)):
        answer = answer_of[:, draw]
        place = rows + answer
        before = sums[place]
        own = np.maximum(before, 0) + votes_of[:, draw]
        sums[place] = own
        new = (before < 0) & (own >= 0)
        known += new
        number[place] += new * known
        # `first` is the most that any answer had before.
        leads, joins = own > first, (own == first) & (own > before)
        second = np.where(place == leader, second, np.maximum(second, np.minimum(own, first)))
        leader = np.where(leads, place, leader)
        first = np.maximum(first, own)
        tied = np.where(leads, 1.0, tied + joins)
        right = np.where(leads, share[answer], right + joins * share[answer])
        firsts[draw], seconds[draw], discovered[draw] = np.maximum(first, 0), second, number[leader]
        rights[draw] = right / np.maximum(tied, 1.0)
    return Votes(firsts.T, seconds.T, discovered.T, rights.T)


def numbered(answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the answers of one question as the numbers 0, 1, 2, ...; -1 stays -1."""
    return np.asarray(np.unique(answers, return_inverse=True)[1] - int(-1 in answers), dtype=np.int64)


def right_of_answers(answers: NDArray[np.int64], correct: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the share of right ones among the trajectories with each answer, of shape (answers,).

    Grades belong to answers, so it is 0 or 1, unless equal texts were graded differently.
    """
    voting = answers >= 0
    classes = max(int(answers.max()) + 1, 1)
    cast = np.bincount(answers[voting], minlength=classes)
    right = np.bincount(answers[voting], correct[voting], minlength=classes)
    return np.asarray(right / np.maximum(cast, 1), dtype=np.float64)
