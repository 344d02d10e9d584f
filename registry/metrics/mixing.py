"""The distribution of the success probability p among prefixes with known counts of k successes of n."""

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
"""Candidates for p. Each inner point represents the values closest to it; 0 and 1 represent only themselves."""

_MIDDLES = (GRID[1:] + GRID[:-1]) / 2
_LOWER = np.concatenate([[0.0, 0.0], _MIDDLES[1:-1], [1.0]])
_UPPER = np.concatenate([[0.0], _MIDDLES[1:-1], [1.0, 1.0]])


@dataclass(frozen=True, eq=False)
class Mixing:
    """The distributions of p in groups of prefixes.

    Attributes
    ----------
    density : ndarray of shape (groups, points), float64
        The mass at each point of the grid. Each row sums to 1.
    slopes : ndarray of shape (groups, outcomes, points), float64
        The derivative of `density` by the mass of each outcome; 0 for outcomes without mass. Its mean over the
        outcomes, weighted by their mass, is 0.
    relative : ndarray of shape (groups, outcomes, points), float64
        The likelihood of an outcome at each p, divided by its mean in the group. Multiplied by `density` it is the
        posterior.
    """

    density: NDArray[np.float64]
    slopes: NDArray[np.float64]
    relative: NDArray[np.float64]


def fit_mixing(
    mass: NDArray[np.float64], successes: NDArray[np.integer[Any]], follow_ups: NDArray[np.integer[Any]]
) -> Mixing:
    """Estimate the distribution of p in each group by expectation maximisation.

    It starts from the uniform distribution and stops after 50 iterations. The likelihood depends only on the first n
    moments of the distribution, and its maximum is a distribution of few spikes. Stopping early keeps it smooth.

    Parameters
    ----------
    mass : ndarray of shape (groups, outcomes), float64
        The mass of each outcome: not negative, with a positive sum in each group.
    successes, follow_ups : ndarray of shape (outcomes,), int
        The outcomes: k of n.
    """
    # No `@` here: with other numbers of threads BLAS may sum in another order, and results must be equal to the bit.
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
    """Return the share of the values behind each grid point that is at least a bound: (rows,) gives (rows, points)."""
    width = np.where(_UPPER > _LOWER, _UPPER - _LOWER, 1)
    share: NDArray[np.float64] = np.clip((_UPPER - bound[:, None]) / width, 0, 1)
    share[:, 0], share[:, -1] = bound <= 0, bound <= 1
    return share


def _likelihood(
    successes: NDArray[np.integer[Any]], follow_ups: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """Return the binomial probability of each outcome under each p, of shape (outcomes, points)."""
    k, n = successes[:, None].astype(np.float64), follow_ups[:, None].astype(np.float64)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    probability: NDArray[np.float64] = np.exp(ways + xlogy(k, GRID) + xlog1py(n - k, -GRID))
    return probability
