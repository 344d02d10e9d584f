"""Random orders of a pool, the same for all strategies that draw one trajectory after another.

A sequential strategy looks at the trajectories that it has drawn, and decides whether to draw one more. Its expectation
over all orders of the pool has no closed form in general. It is estimated by the mean over 1,024 orders: 16 random
permutations with all of their rotations, or as many rotations of more permutations for a pool whose size does not
divide 1,024. In the rotations of a permutation every trajectory is once at every place, so the first trajectory, and
with it pass@1, has no error at all. The rotations of one permutation are not independent, so the error is measured from
the means of the permutations.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDERS", "mean_over_orders", "orders_of"]

ORDERS = 1024
"""The smallest number of orders."""

_LEAST_PERMUTATIONS = 16
_SEED = 0


@lru_cache(maxsize=8)
def orders_of(size: int) -> NDArray[np.int64]:
    """Return the orders of a pool.

    Parameters
    ----------
    size : int
        M, the number of trajectories of each question, at least 1.

    Returns
    -------
    ndarray of shape (permutations, M, M), int64
        The second axis counts the rotations of a permutation. The last axis is the order: position 0 is drawn first.
    """
    permutations = max(_LEAST_PERMUTATIONS, -(-ORDERS // size))
    random = np.random.default_rng(_SEED)
    order = random.permuted(np.tile(np.arange(size), (permutations, 1)), axis=1)
    rotations = (np.arange(size)[:, None] + np.arange(size)) % size
    found: NDArray[np.int64] = order[:, rotations]
    found.flags.writeable = False
    return found


def mean_over_orders(
    values: NDArray[np.float64], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean over the orders of :func:`orders_of`, and its standard error.

    Parameters
    ----------
    values : ndarray of shape (..., permutations x M)
        A value for each order. The rotations of a permutation are consecutive.
    size : int
        M.

    Returns
    -------
    mean, error : ndarray of shape (...), float64
    """
    means = values.reshape(*values.shape[:-1], -1, size).mean(axis=-1)
    error = means.std(axis=-1, ddof=1) / np.sqrt(means.shape[-1])
    return means.mean(axis=-1), np.asarray(error, dtype=np.float64)
