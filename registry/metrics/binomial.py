"""The binomial distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlog1py, xlogy

__all__ = ["binomial"]


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
