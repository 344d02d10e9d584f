"""Quantiles of weighted points, and of weighted Beta distributions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["beta_mixture_quantiles", "fit_mixture_size", "weighted_quantiles"]

_HALVINGS = 40
_SIZES = (0.1, 1e4)
_ROWS = 1024


def weighted_quantiles(
    values: NDArray[np.float64], weights: NDArray[np.float64], levels: Sequence[float]
) -> NDArray[np.float64]:
    """Return quantiles of weighted points, of shape (rows, levels).

    A point is the quantile at the middle of its share of the weight. In between, quantiles are linear in the level.

    Parameters
    ----------
    values, weights : ndarray of shape (rows, points), float64
        The weights of a row sum to 1.
    levels : sequence of float
        Levels in (0, 1).
    """
    order = np.argsort(values, axis=1, kind="stable")
    ascending, shares = (np.take_along_axis(each, order, axis=1) for each in (values, weights))
    middles = np.cumsum(shares, axis=1) - shares / 2
    return np.stack(
        [np.interp(levels, place, value) for place, value in zip(middles, ascending, strict=True)]
    )


def fit_mixture_size(
    means: NDArray[np.float64],
    weights: NDArray[np.float64],
    k: NDArray[np.int64],
    n: NDArray[np.int64],
) -> float:
    """Return the size of the Beta distributions, in [0.1, 10000], that makes k of n likeliest.

    Each row has Beta distributions with these `means` and `weights`, of shape (rows, points), and one size for all.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import betaln, logsumexp

    low, high = map(np.log, _SIZES)

    def loss(log_size: float) -> float:
        a, b = _parameters(means, float(np.exp(log_size)))
        each = betaln(k[:, None] + a, (n - k)[:, None] + b) - betaln(a, b)
        return -float(logsumexp(each, axis=1, b=weights).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x))


def beta_mixture_quantiles(
    means: NDArray[np.float64], weights: NDArray[np.float64], size: float, levels: Sequence[float]
) -> NDArray[np.float64]:
    """Return quantiles of mixtures of Beta distributions of one size, in [0, 1], of shape (rows, levels).

    They are found by halving [0, 1] 40 times.
    """
    from scipy.special import betainc

    found = np.empty((len(means), len(levels)))
    for first in range(0, len(means), _ROWS):
        part = slice(first, first + _ROWS)
        a, b = _parameters(means[part], size)
        for column, level in enumerate(levels):
            low, high = np.zeros(len(a)), np.ones(len(a))
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                below = (weights[part] * betainc(a, b, middle[:, None])).sum(1) < level
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            found[part, column] = (low + high) / 2
    return found


def _parameters(means: NDArray[np.float64], size: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return means * size + 1e-6, (1 - means) * size + 1e-6
