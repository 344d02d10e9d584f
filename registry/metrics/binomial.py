"""The binomial distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import comb, gammaln, xlog1py, xlogy

__all__ = ["binomial", "every_outcome"]

_MOST_POWERS = 1000
"""The n up to which the numbers of combinations are not too large for a float."""


def binomial(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> NDArray[np.float64]:
    """Return the probability of k successes of n, each with the probability p.

    Parameters
    ----------
    k, n : array-like of int
        0 <= k <= n.
    p : array-like of float
        In [0, 1].

    Returns
    -------
    ndarray, float64
        Of the shape to which all three are broadcast.
    """
    successes, failures = np.asarray(k), np.asarray(n) - np.asarray(k)
    ways = gammaln(np.add(n, 1)) - gammaln(successes + 1) - gammaln(failures + 1)
    logarithm = ways + xlogy(successes, p) + xlog1py(failures, -np.asarray(p))
    return np.asarray(np.exp(logarithm), dtype=np.float64)


def every_outcome(n: int, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return :func:`binomial` of k = 0, ..., n. Powers take a part of the time of logarithms.

    Parameters
    ----------
    n : int
        At least 0.
    p : ndarray of any shape, float64
        It is clipped to [0, 1].

    Returns
    -------
    ndarray of shape (n + 1, ...), float64
    """
    p, k = np.clip(p, 0.0, 1.0), np.arange(n + 1).reshape(-1, *[1] * p.ndim)
    if n > _MOST_POWERS:
        return binomial(k, n, p)
    successes, failures = np.ones((2, len(k), *p.shape))
    for power in range(n):
        successes[power + 1] = successes[power] * p
        failures[n - power - 1] = failures[n - power] * (1 - p)
    return np.asarray(comb(n, k) * successes * failures, dtype=np.float64)
