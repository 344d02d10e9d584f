"""How a success probability p is distributed among prefixes of which k of n successes are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

__all__ = ["GRID", "Mixing", "fit_mixing", "share_above"]

_ITERATIONS = 50
_POINTS = 51

GRID = np.linspace(0.0, 1.0, _POINTS)
"""Candidates for p. Each inner one stands for what is nearest to it, 0 and 1 for themselves alone."""

_MIDDLES = (GRID[1:] + GRID[:-1]) / 2
_LOWER = np.concatenate([[0.0, 0.0], _MIDDLES[1:-1], [1.0]])
_UPPER = np.concatenate([[0.0], _MIDDLES[1:-1], [1.0, 1.0]])


@dataclass(frozen=True, eq=False)
class Mixing:
    """Distributions of p in some groups of prefixes.

    Attributes
    ----------
    density : ndarray of shape (groups, points), float64
        The mass at each point of the grid; each row sums to 1.
    slopes : ndarray of shape (groups, outcomes, points), float64
        The derivative of `density` by the mass of each outcome; 0 for outcomes that were not seen. Over the
        outcomes, weighted by their mass, it averages to 0.
    relative : ndarray of shape (groups, outcomes, points), float64
        The likelihood of each p by an outcome over its mean in the group: times `density` it is the posterior.
    """

    density: NDArray[np.float64]
    slopes: NDArray[np.float64]
    relative: NDArray[np.float64]


def fit_mixing(
    mass: NDArray[np.float64], successes: NDArray[np.integer[Any]], follow_ups: NDArray[np.integer[Any]]
) -> Mixing:
    """Estimate each group's distribution of p by expectation maximisation.

    It starts uniform and is stopped after 50 iterations. The likelihood knows of p little beyond its first n
    moments, and where it is largest the distribution is a few spikes; stopping early keeps it smooth.

    Parameters
    ----------
    mass : ndarray of shape (groups, outcomes), float64
        How much of each outcome there is, not below 0; above 0 in total in each group.
    successes, follow_ups : ndarray of shape (outcomes,), int
        The outcomes, k of n each.
    """
    # No `@` here: with other threads BLAS may sum in another order, and results must be equal to the bit.
    likelihood = _likelihood(successes, follow_ups)
    shares = mass / mass.sum(axis=1, keepdims=True)
    seen = mass > 0
    density = np.full((len(mass), _POINTS), 1 / _POINTS)
    slopes = np.zeros((*mass.shape, _POINTS))
    each = np.eye(mass.shape[1])
    for _ in range(_ITERATIONS):
        inverse = np.divide(
            1, np.einsum("bg,og->bo", density, likelihood), where=seen, out=np.zeros(mass.shape)
        )
        factor = np.einsum("bo,og->bg", shares * inverse, likelihood)
        mixed_slopes = np.einsum("bjg,og->bjo", slopes, likelihood)
        by_outcome = each * inverse[:, None] - (shares * inverse**2)[:, None] * mixed_slopes
        factor_slopes = np.einsum("bjo,og->bjg", by_outcome, likelihood) - factor[:, None]
        slopes = slopes * factor[:, None] + density[:, None] * factor_slopes
        density = density * factor
    slopes *= (seen / mass.sum(axis=1, keepdims=True))[:, :, None]
    inverse = np.divide(1, np.einsum("bg,og->bo", density, likelihood), where=seen, out=np.zeros(mass.shape))
    return Mixing(density, slopes, inverse[:, :, None] * likelihood)


def share_above(bound: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of what each point of the grid stands for that is at least a bound: (rows,) gives (rows, points)."""
    width = np.where(_UPPER > _LOWER, _UPPER - _LOWER, 1)
    share: NDArray[np.float64] = np.clip((_UPPER - bound[:, None]) / width, 0, 1)
    share[:, 0], share[:, -1] = bound <= 0, bound <= 1
    return share


def _likelihood(
    successes: NDArray[np.integer[Any]], follow_ups: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """The binomial probability of each outcome under each p, of shape (outcomes, points)."""
    k, n = successes[:, None].astype(np.float64), follow_ups[:, None].astype(np.float64)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    probability: NDArray[np.float64] = np.exp(ways + xlogy(k, GRID) + xlog1py(n - k, -GRID))
    return probability
