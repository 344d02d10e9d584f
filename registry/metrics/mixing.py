"""The distribution of the success probability p among prefixes with known counts of k successes of n."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.metrics.binomial import binomial

__all__ = ["GRID", "Mixing", "divided_point", "fit_mixing"]

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
    relative : ndarray of shape (groups, outcomes, points), float64
        The likelihood of an outcome at each p, divided by its mean in the group. Multiplied by `density` it is the
        posterior.
    """

    density: NDArray[np.float64]
    relative: NDArray[np.float64]
    _mass: NDArray[np.float64] = field(repr=False)
    _likelihood: NDArray[np.float64] = field(repr=False)
    _steps: list[_Step] = field(repr=False)

    def by_mass(self, by_density: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the derivative of a function of the densities by the mass of each outcome, by the chain rule.

        Parameters
        ----------
        by_density : ndarray of shape (groups, points), float64
            The derivative of the function by `density`.

        Returns
        -------
        ndarray of shape (groups, outcomes), float64
            Its mean over the outcomes, weighted by their mass, is 0. It is 0 for outcomes without mass.
        """
        total = self._mass.sum(axis=1, keepdims=True)
        shares = self._mass / total
        found = np.zeros(self._mass.shape)
        for step in reversed(self._steps):
            changes = np.einsum("bg,og->bo", by_density * step.density, self._likelihood) * step.inverse
            found += changes
            passed = np.einsum("bo,og->bg", shares * step.inverse * changes, self._likelihood)
            by_density = by_density * step.factor - passed
        found -= (shares * found).sum(axis=1, keepdims=True)
        return np.where(self._mass > 0, found / total, 0.0)


@dataclass(frozen=True, eq=False, slots=True)
class _Step:
    """An iteration: the density before it, of which each outcome has a probability, and the factor that it got.

    `density` and `factor` have shape (groups, points). `inverse`, of shape (groups, outcomes), is one divided by the
    probability of the outcome; 0 for an outcome without mass.
    """

    density: NDArray[np.float64]
    inverse: NDArray[np.float64]
    factor: NDArray[np.float64]


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
    likelihood = binomial(successes[:, None], follow_ups[:, None], GRID)
    shares = mass / mass.sum(axis=1, keepdims=True)
    density = np.full((len(mass), _POINTS), 1 / _POINTS)
    steps = []

    def inverse_of(density: NDArray[np.float64]) -> NDArray[np.float64]:
        chance = np.einsum("bg,og->bo", density, likelihood)
        inverse: NDArray[np.float64] = np.divide(1.0, chance, where=mass > 0, out=np.zeros_like(chance))
        return inverse

    for _ in range(_ITERATIONS):
        inverse = inverse_of(density)
        step = _Step(density, inverse, np.einsum("bo,og->bg", shares * inverse, likelihood))
        steps.append(step)
        density = density * step.factor
    return Mixing(density, inverse_of(density)[:, :, None] * likelihood, mass, likelihood, steps)


def divided_point(bound: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the grid point whose values each bound divides, and the share of these values that is at least the bound.

    Bounds are above 0 and at most 1. All values behind later points are at least the bound.
    """
    point = np.searchsorted(_UPPER[1:-2], bound) + 1
    share: NDArray[np.float64] = (_UPPER[point] - bound) / (_UPPER - _LOWER)[point]
    return point, share
