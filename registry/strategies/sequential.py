"""Rules that draw one trajectory after another, and decide after each whether to draw one more."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Floats, Ints
from prmcal.registry.contracts import strategy
from prmcal.registry.contracts.pool import PER_TRAJECTORY, READS, Pool
from prmcal.registry.strategies.orders import (
    Votes,
    block_means,
    count_votes,
    first_draws,
    mean_of_blocks,
    numbered,
    right_if_best,
)


@dataclass(frozen=True, eq=False)
class Drawn:
    """The trajectories of one question in many orders. Axis 0 of arrays counts the orders, axis 1 the draws."""

    pool: Pool
    question: int
    """The pool, and the place of the question in it."""
    orders: Ints
    """The trajectories that are drawn, the first one first. Of shape (orders, N), int64."""
    reads: tuple[str, ...]
    """The arrays of the pool that the rule reads."""

    @cached_property
    def in_pool(self) -> dict[str, Floats]:
        """The arrays that `reads` names, under these names. Values of trajectories have shape (M, ...)."""
        return {name: getattr(self.pool, name)[self.question] for name in READS if name in self.reads}

    @cached_property
    def values(self) -> dict[str, Floats]:
        """These arrays in the order of the draws. Values of trajectories have shape (orders, N, ...)."""
        return {
            name: values[self.orders] if name in PER_TRAJECTORY else values for name, values in self.in_pool.items()
        }

    @cached_property
    def answers(self) -> Ints:
        """The answers as numbers from 0 upwards, of shape (orders, N); -1 for a trajectory without an answer."""
        return numbered(self.pool.answers[self.question])[self.orders]

    def first_right(self) -> Ints:
        """Return how many trajectories are drawn before the first right one, of shape (orders,); N if none is right."""
        is_right = self.pool.correct[self.question][self.orders]
        return np.where(is_right.any(axis=1), is_right.argmax(axis=1), self.orders.shape[1])

    def right_if_best(self) -> Floats:
        """Return whether the best-scored of the first 1, 2, ..., N is right; see :func:`right_if_best`."""
        return right_if_best(self.in_pool["scores"], self.pool.correct[self.question], self.orders)

    def votes(self) -> Votes:
        """Return the votes after 1, 2, ..., N draws."""
        return count_votes(self.pool.answers[self.question], self.pool.correct[self.question], self.orders)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The decisions of a rule on one question in every order, at each of its points."""

    stops: NDArray[np.integer]
    """The number of trajectories that are drawn, in [1, N]. Of shape (points, orders), int."""
    right: Floats
    """Probability that the answer is right if the rule stops after 1, 2, ..., N draws. Of shape (orders, N)."""

    def right_at_stops(self) -> Floats:
        """Return the probability that the answer is right where the rule stops, of shape (points, orders)."""
        draws = self.stops.astype(np.intp)[..., None] - 1
        right = np.broadcast_to(self.right, (len(draws), *self.right.shape[-2:]))
        return np.asarray(np.take_along_axis(right, draws, axis=2)[..., 0], dtype=np.float64)


class SequentialRule(strategy.PoolStrategy):
    """Draw one trajectory after another, and stop by a rule.

    A subclass defines in `follow` where it stops. The points of its curve are values of the argument that decides its
    budget. It names them in `budget`, or defines `point` and `curve_points`.
    """

    budget: ClassVar[tuple[str, tuple[float, ...]]] = ("", ())
    """The name of the argument, and the points of the curve, which ascend with the budget. If a larger value means
    fewer samples, as for a price, the points and the name have a minus sign."""

    @abstractmethod
    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Return where the rule stops one question, at each of `points`.

        What it decides after t draws may depend on the first t trajectories only. The trajectory of position t has the
        index t - 1 along axis 1.
        """

    def point(self, allowance: strategy.Allowance) -> float:
        """Return the point at which the strategy is run: the value of the argument that decides its budget."""
        name = self.budget[0].removeprefix("-")
        value = float(getattr(self, name))
        return value if name == self.budget[0] else -value

    def curve_points(self, allowance: strategy.Allowance) -> tuple[float, ...]:
        """Return the points of its curve."""
        return self.budget[1]

    def answer(self, pool: Pool, allowance: strategy.Allowance) -> strategy.Answered:
        """Compute the mean over the shared orders; see :meth:`prmcal.PoolStrategy.answer`."""
        return self._run(pool, allowance, (self.point(allowance),))[0]

    def sweep(self, pool: Pool, allowance: strategy.Allowance) -> tuple[strategy.Answered, ...]:
        """Compute all points of the curve from the same orders; see :meth:`prmcal.PoolStrategy.sweep`."""
        return self._run(pool, allowance, self.curve_points(allowance))

    def needed(self, pool: Pool, drawn: Ints, allowance: strategy.Allowance) -> Ints:
        """Return where the rule has stopped, or one draw more; see :meth:`prmcal.PoolStrategy.needed`.

        A decision after t draws depends only on the first t, so trajectories that are not drawn do no harm.
        """
        order = np.arange(allowance.samples)[None]
        counts = np.minimum(drawn + 1, allowance.samples)
        for question in np.flatnonzero(drawn > 0):
            draws = Drawn(pool, int(question), order, self.reads)
            stop = int(self.follow(draws, (self.point(allowance),)).stops[0, 0])
            counts[question] = min(stop, counts[question])
        return counts

    def choose(self, pool: Pool, allowance: strategy.Allowance) -> int:
        """Return the answer that the rule gives after all of these; see :meth:`prmcal.PoolStrategy.choose`."""
        order, points = np.arange(pool.size)[None], (self.point(allowance),)

        def chance(graded_pool: Pool) -> float:
            return float(self.follow(Drawn(graded_pool, 0, order, self.reads), points).right[0, -1])

        return strategy.most_probable(pool, chance)

    def _run(
        self, pool: Pool, allowance: strategy.Allowance, points: tuple[float, ...]
    ) -> tuple[strategy.Answered, ...]:
        orders = first_draws(pool.size, allowance.samples)
        shape = len(points), pool.questions, len(orders) // pool.size
        accuracy, samples, passed = (np.zeros(shape) for _ in range(3))
        for question in range(pool.questions):
            drawn = Drawn(pool, question, orders, self.reads)
            outcome = self.follow(drawn, points)
            accuracy[:, question] = block_means(outcome.right_at_stops(), pool.size)
            samples[:, question] = block_means(outcome.stops, pool.size)
            passed[:, question] = block_means(outcome.stops > drawn.first_right(), pool.size)
        means, errors = mean_of_blocks(accuracy)
        samples, passed = mean_of_blocks(samples)[0], mean_of_blocks(passed)[0]
        return tuple(
            strategy.Answered(means[place], samples[place], passed[place], order_error=errors[place])
            for place in range(len(points))
        )


def first_at_least(values: Floats, points: tuple[float, ...]) -> Ints:
    """Return the first draw, in [1, N], after which a value is at least each point, or N if there is none.

    `values`, of shape (orders, N), has a value after each draw. NaN is below every point. The result has the shape
    (points, orders).
    """
    highest = np.fmax.accumulate(values, axis=1)
    before = np.array([np.count_nonzero(~(highest >= point), axis=1) for point in points])
    return np.asarray(np.minimum(before + 1, values.shape[1]), dtype=np.int64)
