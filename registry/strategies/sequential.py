"""The base of rules that draw one trajectory after another, and decide after each whether to draw one more."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import PER_TRAJECTORY, READS, Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting
from prmcal.registry.strategies.orders import mean_over_orders, orders_of

__all__ = [
    "Drawn",
    "Outcome",
    "SequentialRule",
    "best_so_far",
    "right_if_best",
    "right_if_most_frequent",
    "vote_counts",
]


@dataclass(frozen=True, eq=False)
class Drawn:
    """The trajectories of one question in many orders. Axis 0 counts the orders, axis 1 the draws.

    Attributes
    ----------
    correct : ndarray of shape (orders, N), bool
        It serves to compute what a choice would give. A rule must not read it to decide.
    answers : ndarray of shape (orders, N), int64
        From 0 upwards; -1 for a trajectory without an answer.
    values : dict of str to ndarray
        What the rule's `reads` names, under these names. Values of trajectories have shape (orders, N, ...). Values of
        the bare question, such as `question_rewards`, have no axis of orders.
    levels : tuple of float
        The levels beta of the rewards at all levels.
    """

    correct: NDArray[np.bool_]
    answers: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]]
    levels: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a rule does with one question in every order, at each of its points.

    Attributes
    ----------
    stops : ndarray of shape (points, orders), int64
        The number of trajectories that are drawn, in [1, N].
    right : ndarray of shape (orders, N) or (points, orders, N), float64
        Probability that the answer is right if the rule stops after 1, 2, ..., N draws.
    silent : ndarray of shape (points, orders), bool, or None
        Whether the rule gives no answer; None if it always gives one.
    """

    stops: NDArray[np.int64]
    right: NDArray[np.float64]
    silent: NDArray[np.bool_] | None = None


class SequentialRule(PoolStrategy):
    """Draw one trajectory after another, and stop by a rule.

    A subclass says in `follow` where it stops. `points` are the settings of its curve: a rule with a target C has one
    point for each C, another rule one for each value of the argument that decides its budget.
    """

    @abstractmethod
    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Return where the rule stops one question, at each of `points`.

        What it decides after t draws may depend on the first t trajectories only. The trajectory of position t has the
        index t - 1 along axis 1.
        """

    @abstractmethod
    def point(self, setting: Setting) -> float:
        """Return the point at which the strategy is run: the target C, or the value of an argument."""

    @abstractmethod
    def curve_points(self, setting: Setting) -> tuple[float, ...]:
        """Return the points of its curve."""

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the mean over the shared orders; see :meth:`prmcal.PoolStrategy.answer`."""
        return self._run(pool, setting, (self.point(setting),))[0]

    def sweep(self, pool: Pool, setting: Setting) -> tuple[Answered, ...]:
        """Compute all points of the curve from the same orders; see :meth:`prmcal.PoolStrategy.sweep`."""
        return self._run(pool, setting, self.curve_points(setting))

    def _run(self, pool: Pool, setting: Setting, points: tuple[float, ...]) -> tuple[Answered, ...]:
        orders = orders_of(pool.size).reshape(-1, pool.size)[:, : setting.samples]
        shape = (len(points), pool.questions)
        accuracy, error, samples, silent, passed = (np.zeros(shape) for _ in range(5))
        answering = True
        for question in range(pool.questions):
            drawn = _drawn(pool, question, orders, self.reads)
            outcome = self.follow(drawn, points)
            right = np.broadcast_to(outcome.right, (len(points), *drawn.correct.shape))
            last = outcome.stops[..., None] - 1
            value = np.take_along_axis(right, last, axis=2)[..., 0]
            if outcome.silent is not None:
                answering = False
                value = np.where(outcome.silent, 0.0, value)
                silent[:, question] = mean_over_orders(outcome.silent.astype(np.float64), pool.size)[0]
            accuracy[:, question], error[:, question] = mean_over_orders(value, pool.size)
            samples[:, question] = mean_over_orders(outcome.stops.astype(np.float64), pool.size)[0]
            found = np.logical_or.accumulate(drawn.correct, axis=1).astype(np.float64)
            reached = np.take_along_axis(np.broadcast_to(found, right.shape), last, axis=2)[..., 0]
            passed[:, question] = mean_over_orders(reached, pool.size)[0]
        results = [
            Answered(accuracy=a, samples=n, pass_at_samples=p, order_error=e)
            for a, n, p, e in zip(accuracy, samples, passed, error, strict=True)
        ]
        if not answering:
            results = [replace(each, abstained=s) for each, s in zip(results, silent, strict=True)]
        return tuple(results)


def _drawn(pool: Pool, question: int, orders: NDArray[np.int64], reads: tuple[str, ...]) -> Drawn:
    values: dict[str, NDArray[np.float64]] = {}
    for name in READS:
        if name in reads:
            own = getattr(pool, name)[question]
            values[name] = own[orders] if name in PER_TRAJECTORY else own
    numbers = np.unique(pool.answers[question], return_inverse=True)[1] - (-1 in pool.answers[question])
    return Drawn(pool.correct[question][orders], numbers[orders], values, pool.levels)


def best_so_far(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the best of the first 1, 2, ..., N scores of each order, of the same shape. NaN counts as -inf."""
    best: NDArray[np.float64] = np.maximum.accumulate(np.nan_to_num(scores, nan=-np.inf), axis=1)
    return best


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
    values = np.nan_to_num(scores, nan=-np.inf)
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


def right_if_most_frequent(
    answers: NDArray[np.int64], correct: NDArray[np.bool_], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return whether the answer with the most votes among the first 1, 2, ..., N trajectories is right.

    Answers with the same number of votes are equally likely to win. Without a vote the result is 0.

    Parameters
    ----------
    answers : ndarray of shape (orders, N), int64
        From 0 upwards; -1 for a trajectory without an answer, which does not vote.
    correct : ndarray of shape (orders, N), bool
    weights : ndarray of shape (orders, N), float64, optional
        The weight of each vote, above 0. The default is 1.

    Returns
    -------
    ndarray of shape (orders, N), float64
        In [0, 1].
    """
    votes, right = vote_counts(answers, weights), _right_of(answers, correct)
    most = votes.max(axis=2, keepdims=True)
    # Sums of the same weights in a different order differ in their last digits.
    first = (votes >= most - 1e-9 * np.maximum(most, 1.0)) & (most > 0)
    wins = first.sum(axis=2)
    return np.where(wins > 0, (first * right).sum(axis=2) / np.maximum(wins, 1), 0.0)


def vote_counts(
    answers: NDArray[np.int64], weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the votes of every answer among the first 1, 2, ..., N trajectories, of shape (orders, N, answers)."""
    classes = max(int(answers.max()) + 1, 1)
    cast = (answers[..., None] == np.arange(classes)).astype(np.float64)
    if weights is not None:
        cast *= weights[..., None]
    return np.cumsum(cast, axis=1, dtype=np.float64)


def _right_of(answers: NDArray[np.int64], correct: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the share of right ones among the trajectories with each answer, of shape (answers,).

    Grades belong to answers, so it is 0 or 1, unless equal texts were graded differently.
    """
    voting = answers >= 0
    classes = max(int(answers.max()) + 1, 1)
    cast = np.bincount(answers[voting], minlength=classes)
    right = np.bincount(answers[voting], correct[voting], minlength=classes)
    return np.asarray(right / np.maximum(cast, 1), dtype=np.float64)
