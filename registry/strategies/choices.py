"""Which answer is chosen after each draw, and whether it is right: the best-scored one, or the one with most votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.strategies.orders import Orders, highest_so_far, sum_so_far
from prmcal.remembered import remembered

__all__ = [
    "Votes",
    "count_votes",
    "numbered",
    "places_of",
    "right_if_best",
    "right_if_most_votes",
    "right_of_answers",
]

_UNITS = 2.0**40


@remembered
def right_if_best(scores: NDArray[np.float64], correct: NDArray[np.bool_], orders: Orders) -> NDArray[Any]:
    """Return whether the best-scored of the first 1, 2, ..., N trajectories is right.

    Trajectories with equal scores are equally likely to be chosen.

    Parameters
    ----------
    scores, correct : ndarray of shape (M,)
        Scores or rewards, NaN where the input is too long for the PRM, which ranks last.
    orders : Orders

    Returns
    -------
    ndarray of shape (orders, N), float64 or int
        In [0, 1]. It has a small type if it is 0 or 1 everywhere.
    """
    ranks = np.unique(np.where(np.isnan(scores), -np.inf, scores), return_inverse=True)[1]
    share = np.bincount(ranks, correct) / np.bincount(ranks)
    # The last bit of the highest number says whether the best-scored one is right.
    numbers = 2 * ranks + (share[ranks] == 1)
    best = highest_so_far(orders.of(numbers.astype(np.min_scalar_type(2 * len(share)))))
    certain = best & 1
    mixed_ranks = np.flatnonzero((share > 0) & (share < 1))
    if not len(mixed_ranks):
        return certain
    found = certain.astype(np.float64)
    count = np.min_scalar_type(len(scores))
    for mixed in mixed_ranks:  # Only here does it matter which ones are drawn.
        tied = sum_so_far(orders.of((ranks == mixed).astype(count)))
        right = sum_so_far(orders.of(((ranks == mixed) & correct).astype(count)))
        np.divide(right, tied, out=found, where=best == 2 * mixed)
    return found


@dataclass(frozen=True, eq=False)
class Votes:
    """The votes among the first 1, 2, ..., N trajectories of each order. All arrays have shape (orders, N).

    Attributes
    ----------
    first, second : ndarray of int
        The votes of the leader and of the runner-up, which are two different answers; 0 if there is none.
    discovered : ndarray of int
        The leader is the answer that appeared as the first (1), second (2), ... of all; 0 if there is none.
        Of answers with equal votes, the one that had them first leads.
    right : ndarray of float64
        What :func:`right_if_most_votes` returns.
    """

    first: NDArray[np.signedinteger]
    second: NDArray[np.signedinteger]
    discovered: NDArray[np.signedinteger]
    right: NDArray[np.float64]


@remembered
def count_votes(answers: NDArray[np.int64], correct: NDArray[np.bool_], orders: Orders) -> Votes:
    """Count the votes after each draw.

    Parameters
    ----------
    answers : ndarray of shape (M,), int64
        The answers as numbers; -1 for a trajectory without an answer, which does not vote.
    correct : ndarray of shape (M,), bool
    orders : Orders
    """
    named = numbered(answers)
    tally = _tally(named, _ones(named), orders)
    drawn = orders.of(named.astype(tally.own.dtype)).T
    leader = _sum_since(tally.leads, tally.leads * drawn)
    discovered = _sum_since(tally.leads, tally.leads * _numbers(named, tally.own == 1, orders))
    second = np.minimum(tally.own, tally.most[:-1])
    second[1:][drawn[1:] == leader[:-1]] = 0
    second = np.maximum(highest_so_far(second.T), 0)
    first = np.maximum(tally.most[1:], 0)
    return Votes(first.T, second, discovered.T, _right(tally, named, correct, orders))


@remembered
def right_if_most_votes(
    answers: NDArray[np.int64],
    correct: NDArray[np.bool_],
    orders: Orders,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return whether the answer with most votes among the first 1, 2, ..., N trajectories is right.

    Answers with equal votes are equally likely to win. Without a vote it is 0.

    Parameters
    ----------
    answers : ndarray of shape (M,), int64
        The answers as numbers; -1 for a trajectory without an answer, which does not vote.
    correct : ndarray of shape (M,), bool
    orders : Orders
    weights : ndarray of shape (M,), float64, optional
        The weight of each vote in [0, 1]. It is rounded to 2^-40, so that sums do not depend on the order of the
        draws. The default is 1 vote each.

    Returns
    -------
    ndarray of shape (orders, N), float64
        In [0, 1].
    """
    named = numbered(answers)
    votes = _ones(named) if weights is None else np.rint(weights * _UNITS).astype(np.int64)
    return _right(_tally(named, votes, orders), named, correct, orders)


@dataclass(frozen=True, eq=False)
class _Tally:
    """What each vote changes. Axis 0 counts the draws, axis 1 the orders.

    Attributes
    ----------
    own : ndarray of shape (N, orders), int
        The votes of the answer that is drawn; -1 if it is none.
    most : ndarray of shape (N + 1, orders), int
        The most votes of an answer after 0, 1, ..., N draws; -1 without a vote.
    leads, joins : ndarray of shape (N, orders), bool
        The answer that is drawn gets more votes than any had before, or as many.
    """

    own: NDArray[np.signedinteger]
    most: NDArray[np.signedinteger]
    leads: NDArray[np.bool_]
    joins: NDArray[np.bool_]


def _tally(named: NDArray[np.int64], votes: NDArray[np.signedinteger], orders: Orders) -> _Tally:
    """Count votes of shape (M,) for the answers that are numbered from 0 upwards; -1 is none."""
    draws = orders.trajectories.T
    # An answer has -1 votes until its first one, since a vote can have the weight 0. None has -1 votes for ever.
    votes = np.where(named < 0, -1, votes).astype(votes.dtype)
    sums = np.full((_classes(named) + 1) * draws.shape[1], -1, votes.dtype)
    own, leads, joins = (np.empty(draws.shape, each) for each in (votes.dtype, np.bool_, np.bool_))
    most = np.full((len(draws) + 1, draws.shape[1]), -1, votes.dtype)
    for draw, place in enumerate(places_of(named, orders)):
        before, after = sums.take(place), own[draw]
        np.maximum(before, 0, out=after)
        after += votes.take(draws[draw])
        sums[place] = after
        np.greater(after, most[draw], out=leads[draw])
        np.equal(after, most[draw], out=joins[draw])
        joins[draw] &= after > before
        np.maximum(most[draw], after, out=most[draw + 1])
    return _Tally(own, most, leads, joins)


def _right(
    tally: _Tally, named: NDArray[np.int64], correct: NDArray[np.bool_], orders: Orders
) -> NDArray[np.float64]:
    """The probability that the winner is right, of shape (orders, N)."""
    count = _ones(named).dtype
    share = right_of_answers(named, correct)
    if not np.any((share > 0) & (share < 1)):
        share = share.astype(count)  # Sums of 0 and 1 are the same in a small type.
    winners = tally.leads | tally.joins
    right = _sum_since(tally.leads, winners * orders.of(share[named]).T)
    tied = _sum_since(tally.leads, winners.astype(count))
    found: NDArray[np.float64] = np.divide(right, np.maximum(tied, 1), dtype=np.float64)
    return found.T


def _numbers(named: NDArray[np.int64], new: NDArray[np.bool_], orders: Orders) -> NDArray[np.signedinteger]:
    """Which answer is drawn, if they are numbered from 1 upwards in the order of their first votes in each order.

    It has the shape (N, orders), like `new`, which says whether the answer is drawn for the first time.
    """
    found = sum_so_far(new.astype(_ones(named).dtype).T).T
    numbers = np.zeros((_classes(named) + 1) * found.shape[1], found.dtype)
    for own, first, place in zip(found, new, places_of(named, orders), strict=True):
        own *= first
        own += numbers.take(place)
        numbers[place] = own
    return found


def places_of(named: NDArray[np.int64], orders: Orders) -> Iterator[NDArray[np.int64]]:
    """Yield for each draw the places of the answers that are drawn, of shape (orders,).

    They are places in a flat table of shape (answers + 1, orders). Its last row is that of trajectories without an
    answer.
    """
    columns = np.arange(len(orders.trajectories))
    rows = np.where(named < 0, _classes(named), named) * len(columns)
    for drawn in orders.trajectories.T:
        yield rows.take(drawn) + columns


def _classes(named: NDArray[np.int64]) -> int:
    """The number of answers that are numbered from 0 upwards, or 1 if there is none."""
    return max(int(named.max()) + 1, 1)


def _ones(named: NDArray[np.int64]) -> NDArray[np.signedinteger]:
    """One vote for each trajectory, in the smallest type that can count them."""
    return np.ones(len(named), np.min_scalar_type(-len(named) - 1))


def _sum_since(starts: NDArray[np.bool_], added: NDArray[Any]) -> NDArray[Any]:
    """The sums of what is added from the last start on, along axis 0. It overwrites `added`."""
    for (before, after), goes_on in zip(pairwise(added), ~starts[1:], strict=True):
        after += before * goes_on
    return added


def numbered(answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the answers of one question as the numbers 0, 1, 2, ...; -1 stays -1."""
    return np.asarray(np.unique(answers, return_inverse=True)[1] - int(-1 in answers), dtype=np.int64)


def right_of_answers(answers: NDArray[np.int64], correct: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the share of right ones among the trajectories with each answer, of shape (answers,).

    Grades belong to answers, so it is 0 or 1, unless equal texts were graded differently.
    """
    voting = answers >= 0
    cast = np.bincount(answers[voting], minlength=_classes(answers))
    right = np.bincount(answers[voting], correct[voting], minlength=_classes(answers))
    return np.asarray(right / np.maximum(cast, 1), dtype=np.float64)
