"""Random orders of a pool, the same for all strategies that draw one trajectory after another.

A sequential strategy looks at the trajectories that it has drawn, and decides whether to draw one more. Its expectation
over all orders of the pool has no closed form in general. It is estimated by the mean over at least 1,024 orders, in at
least 16 blocks. In a block every trajectory is once the first, and the others follow in a random order. So the first
draw, and with it pass@1, has no error at all. Blocks are independent of each other, so the error is measured from their
means.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDERS", "mean_over_orders", "orders_of"]

ORDERS = 1024
"""The smallest number of orders."""

_LEAST_BLOCKS = 16
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
    ndarray of shape (blocks, M, M), int64
        The order [block, i] begins with the trajectory i. Along the last axis, position 0 is drawn first.
    """
    blocks = max(_LEAST_BLOCKS, -(-ORDERS // size))
    places = np.random.default_rng(_SEED).random((blocks, size, size))
    own = np.arange(size)
    places[:, own, own] = -1.0
    found: NDArray[np.int64] = np.argsort(places, axis=-1)
    found.flags.writeable = False
    return found


def mean_over_orders(
    values: NDArray[np.float64], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean over the orders of :func:`orders_of`, and its standard error.

    Parameters
    ----------
    values : ndarray of shape (..., blocks x M)
        A value for each order. The orders of a block are consecutive.
    size : int
        M.

    Returns
    -------
    mean, error : ndarray of shape (...), float64
    """
    means = values.reshape(*values.shape[:-1], -1, size).mean(axis=-1)
    error = means.std(axis=-1, ddof=1) / np.sqrt(means.shape[-1])
    return means.mean(axis=-1), np.asarray(error, dtype=np.float64)
