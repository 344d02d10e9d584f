"""The base of rules that draw one trajectory after another, and decide after each whether to draw one more."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.pool import PER_TRAJECTORY, READS, Pool
from prmcal.registry.contracts.strategy import (
    SWEPT_TARGETS,
    Answered,
    Choice,
    PoolStrategy,
    Setting,
    most_probable,
)
from prmcal.registry.strategies.adaptive import target_of
from prmcal.registry.strategies.choices import numbered
from prmcal.registry.strategies.orders import mean_over_orders, orders_of

__all__ = ["Drawn", "Outcome", "SequentialRule", "TargetedRule", "drawn_in", "first_at_least"]


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

    A subclass says in `follow` where it stops. The settings of its curve are its points: the values of the argument
    that decides its budget.
    """

    @abstractmethod
    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Return where the rule stops one question, at each of `points`.

        What it decides after t draws may depend on the first t trajectories only. The trajectory of position t has the
        index t - 1 along axis 1.
        """

    @abstractmethod
    def point(self, setting: Setting) -> float:
        """Return the point at which the strategy is run, such as the value of an argument."""

    @abstractmethod
    def curve_points(self, setting: Setting) -> tuple[float, ...]:
        """Return the points of its curve."""

    def answer(self, pool: Pool, setting: Setting) -> Answered:
        """Compute the mean over the shared orders; see :meth:`prmcal.PoolStrategy.answer`."""
        return self._run(pool, setting, (self.point(setting),))[0]

    def sweep(self, pool: Pool, setting: Setting) -> tuple[Answered, ...]:
        """Compute all points of the curve from the same orders; see :meth:`prmcal.PoolStrategy.sweep`."""
        return self._run(pool, setting, self.curve_points(setting))

    def needed(self, pool: Pool, drawn: NDArray[np.int64], setting: Setting) -> NDArray[np.int64]:
        """Return where the rule has stopped, or one more than is drawn; see :meth:`prmcal.PoolStrategy.needed`.

        What the rule decides after t draws depends on the first t only, so those that are not drawn do no harm.
        """
        order = np.arange(setting.samples)[None]
        found = np.minimum(drawn + 1, setting.samples)
        for question in np.flatnonzero(drawn > 0):
            one = drawn_in(pool, int(question), order, self.reads)
            stop = int(self.follow(one, (self.point(setting),)).stops[0, 0])
            found[question] = min(stop, found[question])
        return found

    def choose(self, pool: Pool, setting: Setting) -> Choice:
        """Return the answer that the rule gives after all of these; see :meth:`prmcal.PoolStrategy.choose`."""
        order, points = np.arange(pool.size)[None], (self.point(setting),)
        silent = False

        def chance(graded: Pool) -> float:
            nonlocal silent
            outcome = self.follow(drawn_in(graded, 0, order, self.reads), points)
            silent = outcome.silent is not None and bool(outcome.silent[0, 0])
            return float(outcome.right[..., -1].flat[0])

        return Choice(most_probable(pool, chance), withheld=silent)

    def _run(self, pool: Pool, setting: Setting, points: tuple[float, ...]) -> tuple[Answered, ...]:
        orders = orders_of(pool.size).reshape(-1, pool.size)[:, : setting.samples]
        shape = (len(points), pool.questions)
        accuracy, error, samples, silent, passed = (np.zeros(shape) for _ in range(5))
        answering = True
        for question in range(pool.questions):
            drawn = drawn_in(pool, question, orders, self.reads)
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


class TargetedRule(SequentialRule):
    """A sequential rule whose points are target probabilities C."""

    targeted = True

    def point(self, setting: Setting) -> float:
        """Return the target C."""
        return target_of(setting)

    def curve_points(self, setting: Setting) -> tuple[float, ...]:
        """Return values of C from .05 to almost 1."""
        return SWEPT_TARGETS


def drawn_in(pool: Pool, question: int, orders: NDArray[np.int64], reads: tuple[str, ...]) -> Drawn:
    """Return the trajectories of one question in some orders.

    Parameters
    ----------
    pool : Pool
    question : int
        Its place in the pool.
    orders : ndarray of shape (orders, N), int64
        The trajectories that are drawn, the first one first.
    reads : tuple of str
        What is read of the pool.
    """
    values: dict[str, NDArray[np.float64]] = {}
    for name in READS:
        if name in reads:
            own = getattr(pool, name)[question]
            values[name] = own[orders] if name in PER_TRAJECTORY else own
    answers = numbered(pool.answers[question])
    return Drawn(pool.correct[question][orders], answers[orders], values, pool.levels)


def first_at_least(values: NDArray[np.float64], points: tuple[float, ...]) -> NDArray[np.int64]:
    """Return the first draw after which a value is at least each point, or N if there is none.

    Parameters
    ----------
    values : ndarray of shape (orders, N), float64
        A value after each draw. NaN is below every point.
    points : tuple of float

    Returns
    -------
    ndarray of shape (points, orders), int64
        In [1, N].
    """
    highest = np.maximum.accumulate(np.where(np.isnan(values), -np.inf, values), axis=1)
    before = np.stack([np.count_nonzero(highest < point, axis=1) for point in points])
    return np.asarray(np.minimum(before + 1, values.shape[1]), dtype=np.int64)
