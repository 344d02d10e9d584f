"""Random orders of a pool, the same for all strategies that draw one trajectory after another.

A sequential strategy looks at the trajectories that it has drawn, and decides whether to draw one more. Its expectation
over all orders of the pool has no closed form in general. It is estimated by the mean over at least 256 orders, in at
least 4 blocks. A block is a Latin square: every trajectory is once the first, once the second, and so on. So the first
draw, and with it pass@1, has no error at all, and what each trajectory adds by itself has none at any draw. Such orders
leave less error than as many that are drawn independently. Blocks are independent of each other, so the error is
measured from their means.

Axis 0 of arrays counts the orders, axis 1 the draws. In memory, the values of one draw in all orders are neighbours,
since programs go from draw to draw.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Floats, Ints
from prmcal.remembered import remembered

ORDERS = 256
"""The smallest number of orders."""

_LEAST_BLOCKS = 4
_SEED = 0

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders in which `draws` trajectories of a question with `size` trajectories are drawn.

    `given`, of shape (orders, draws), has the trajectories, the first one first. By default the orders are those of
    :func:`orders_of`.
    """

    size: int
    draws: int
    given: Ints | None = None

    @classmethod
    def these(cls, given: Ints) -> Self:
        """Return these orders, of shape (orders, N), of as many trajectories as they name."""
        return cls(int(given.max()) + 1, given.shape[1], given)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of orders and N."""
        orders, draws = self.trajectories.shape
        return orders, draws

    @property
    def trajectories(self) -> Ints:
        """The trajectories that are drawn, of shape (orders, N)."""
        return _first_of(self.size, self.draws).T if self.given is None else self.given

    @property
    def positions(self) -> NDArray[np.unsignedinteger]:
        """The number of trajectories drawn before each of the M, of shape (M, orders); N if it is never drawn."""
        if self.given is None:
            return _positions_of(self.size, self.draws)
        return _positions(self.given, self.size)

    def of(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return values of the trajectories, of shape (M, ...), as they are drawn, of shape (orders, N, ...)."""
        return values.take(self.trajectories.T, axis=0).swapaxes(0, 1)


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
def _first_of(size: int, draws: int) -> Ints:
    """The first trajectories of the orders of a pool, of shape (N, orders)."""
    return np.ascontiguousarray(orders_of(size).reshape(-1, size)[:, :draws].T)


@remembered
def _positions_of(size: int, draws: int) -> NDArray[np.unsignedinteger]:
    return _positions(_first_of(size, draws).T, size)


def _positions(trajectories: Ints, size: int) -> NDArray[np.unsignedinteger]:
    orders, draws = trajectories.shape
    found = np.full((size, orders), draws, np.min_scalar_type(draws))
    found[trajectories.T, np.arange(orders)] = np.arange(draws)[:, None]
    return found


def highest_so_far(values: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the highest value of the first 1, 2, ..., N draws, of shape (orders, N). It is NaN if all are NaN.

    It is written to `out`, which may be `values`, if that is given.
    """
    found = np.empty(values.shape[::-1], values.dtype) if out is None else out.T
    found[0] = values[:, 0]
    for draw in range(1, len(found)):  # faster than maximum.accumulate
        np.fmax(found[draw - 1], values[:, draw], out=found[draw])
    return found.T


def sum_so_far(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of the first 1, 2, ..., N draws, of shape (orders, N), in the type of the values.

    It is written over the values.
    """
    for before, after in pairwise(values.T):  # faster than add.accumulate
        after += before
    return values


def block_means(values: NDArray[Any], size: int) -> Floats:
    """Return the mean over each block of the orders of :func:`orders_of`, of shape (..., blocks).

    `values`, of shape (..., blocks x M), has one for each order. The orders of a block are consecutive.
    """
    blocks = values.reshape(*values.shape[:-1], -1, size)
    return np.asarray(blocks.sum(axis=-1) / size, dtype=np.float64)


def mean_of_blocks(means: Floats) -> tuple[Floats, Floats]:
    """Return the mean over all orders, and its standard error, each of shape (...).

    The means of blocks have the shape (..., blocks).
    """
    # Without the difference, rounding would leave equal means a tiny error.
    error = (means - means[..., :1]).std(axis=-1, ddof=1) / np.sqrt(means.shape[-1])
    return means.mean(axis=-1), np.asarray(error, dtype=np.float64)
