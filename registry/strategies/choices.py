"""Which answer is chosen after each draw, and whether it is right: the best-scored one, or the one with most votes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Votes", "count_votes", "numbered", "right_if_best", "right_of_answers"]

_UNITS = 2.0**40


def right_if_best(scores: NDArray[np.float64], correct: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return whether the best-scored of the first 1, 2, ..., N trajectories is right.

    Trajectories with equal scores are equally likely to be chosen.

    Parameters
    ----------
    scores, correct : ndarray of shape (orders, N)
        Scores or rewards, NaN where the input is too long for the PRM, which ranks last.

    Returns
    -------
    ndarray of shape (orders, N), float64
        In [0, 1].
    """
    values = np.where(np.isnan(scores), -np.inf, scores)
    orders, draws = values.shape
    best = np.full(orders, -np.inf)
    tied, right = np.zeros(orders), np.zeros(orders)
    found = np.empty((orders, draws))
    for draw in range(draws):
        value, graded = values[:, draw], correct[:, draw].astype(np.float64)
        higher, same = value > best, value == best
        tied = np.where(higher, 1.0, tied + same)
        right = np.where(higher, graded, right + same * graded)
        best = np.maximum(best, value)
        found[:, draw] = right / tied
    return found


@dataclass(frozen=True, eq=False)
class Votes:
    """The votes among the first 1, 2, ..., N trajectories of each order. All arrays have shape (orders, N).

    Attributes
    ----------
    first, second : ndarray of int64
        The votes of the leader and of the runner-up, which are two different answers; 0 if there is none. With
        weights, they are in units of 2^-40.
    discovered : ndarray of int64
        The leader is the answer that appeared as the first (1), second (2), ... of all; 0 if there is none.
        Of answers with equal votes, the one that had them first leads.
    right : ndarray of float64
        Probability in [0, 1] that the winner is right. Answers with equal votes are equally likely to win. Without a
        vote it is 0.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    discovered: NDArray[np.int64]
    right: NDArray[np.float64]


def count_votes(
    answers: NDArray[np.int64], correct: NDArray[np.bool_], weights: NDArray[np.float64] | None = None
) -> Votes:
    """Count the votes after each draw.

    Parameters
    ----------
    answers : ndarray of shape (orders, N), int64
        From 0 upwards; -1 for a trajectory without an answer, which does not vote.
    correct : ndarray of shape (orders, N), bool
    weights : ndarray of shape (orders, N), float64, optional
        The weight of each vote in [0, 1]. It is rounded to 2^-40, so that sums do not depend on the order of the
        draws. The default is 1 vote each.
    """
    orders, draws = answers.shape
    share = right_of_answers(answers, correct)
    votes = (
        np.ones(answers.shape, np.int64) if weights is None else np.rint(weights * _UNITS).astype(np.int64)
    )
    rows = np.arange(orders)
    sums, order_found = np.zeros((2, orders, len(share)), np.int64)
    leader, known = np.full(orders, -1), np.zeros(orders, np.int64)
    first, second = np.full(orders, -1), np.zeros(orders, np.int64)
    tied, right = np.zeros(orders), np.zeros(orders)
    firsts, seconds, discovered = (np.zeros(answers.shape, np.int64) for _ in range(3))
    rights = np.zeros(answers.shape)
    for draw in range(draws):
        answer = answers[:, draw]
        votes_now = answer >= 0
        new = votes_now & (order_found[rows, answer] == 0)
        known = known + new
        order_found[rows[new], answer[new]] = known[new]
        before = sums[rows, answer]
        own = before + votes[:, draw]
        sums[rows[votes_now], answer[votes_now]] = own[votes_now]
        grows = votes_now & (new | (own > before))
        leads, joins = grows & (own > first), grows & (own == first)
        overtakes = leads & (answer != leader)
        second = np.where(
            overtakes,
            np.maximum(first, 0),
            np.where(votes_now & (answer != leader), np.maximum(second, own), second),
        )
        leader, first = np.where(leads, answer, leader), np.where(leads, own, first)
        tied = np.where(leads, 1.0, tied + joins)
        right = np.where(leads, share[answer], right + joins * share[answer])
        firsts[:, draw] = np.maximum(first, 0)
        seconds[:, draw] = second
        discovered[:, draw] = np.where(leader >= 0, order_found[rows, leader], 0)
        rights[:, draw] = right / np.maximum(tied, 1.0)
    return Votes(firsts, seconds, discovered, rights)


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
