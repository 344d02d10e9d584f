"""The coverage of predicted quantiles: how often the success probability is at least the reward."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlog1py, xlogy

from prmcal.arrays import Bools, Floats
from prmcal.registry.contracts.metric import Metric, PrefixRows, QuestionRatio

_ITERATIONS = 50
_POINTS = 51

GRID = np.linspace(0.0, 1.0, _POINTS)
"""Candidates for p. Each inner point represents the values closest to it; 0 and 1 represent only themselves."""

_MIDDLES = (GRID[1:] + GRID[:-1]) / 2
_LOWER = np.concatenate([[0.0, 0.0], _MIDDLES[1:-1], [1.0]])
_UPPER = np.concatenate([[0.0], _MIDDLES[1:-1], [1.0, 1.0]])
_BINS = 20
_MEDIAN = 0.5
_LEARNING = 40


def binomial(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return the probability of k successes of n, each with the probability p in [0, 1], for 0 <= k <= n.

    The result has the common shape of all three after broadcasting.
    """
    successes, failures = np.asarray(k), np.asarray(n) - np.asarray(k)
    ways = gammaln(np.add(n, 1)) - gammaln(successes + 1) - gammaln(failures + 1)
    logarithm = ways + xlogy(successes, p) + xlog1py(failures, -np.asarray(p))
    return np.asarray(np.exp(logarithm), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Mixing:
    """The distributions of p in groups of prefixes."""

    density: Floats
    """The mass at each point of the grid. Each row sums to 1. Of shape (groups, points), float64."""
    relative: Floats
    """The likelihood of an outcome at each p, divided by its mean in the group. Multiplied by `density` it is the
    posterior. Of shape (groups, outcomes, points), float64."""
    _mass: Floats = field(repr=False)
    _likelihood: Floats = field(repr=False)
    _steps: list[tuple[Floats, Floats, Floats]] = field(repr=False)
    """For each iteration: the density before it, its factor, and 1 / (the probability of each outcome), or 0 for an
    outcome without mass."""

    def by_mass(self, by_density: Floats) -> Floats:
        """Return the derivative of a function of the densities by the mass of each outcome, by the chain rule.

        `by_density`, of shape (groups, points), is the derivative of the function by `density`. The result has the
        shape (groups, outcomes). The mean of the derivative over the outcomes, weighted by their mass, is 0. The
        derivative is 0 for outcomes without mass.
        """
        total = self._mass.sum(axis=1, keepdims=True)
        shares = self._mass / total
        by_outcome = np.zeros(self._mass.shape)
        for density, factor, inverse in reversed(self._steps):
            changes = np.einsum("bg,og->bo", by_density * density, self._likelihood) * inverse
            by_outcome += changes
            passed = np.einsum("bo,og->bg", shares * inverse * changes, self._likelihood)
            by_density = by_density * factor - passed
        by_outcome -= (shares * by_outcome).sum(axis=1, keepdims=True)
        return np.where(self._mass > 0, by_outcome / total, 0.0)


def fit_mixing(mass: Floats, successes: NDArray[np.integer[Any]], follow_ups: NDArray[np.integer[Any]]) -> Mixing:
    """Estimate the distribution of p in each group by expectation maximisation.

    The fit starts from the uniform distribution and stops after 50 steps. The likelihood depends only on the first n
    moments of the distribution, and its maximum is a distribution of few spikes. Stopping early keeps it smooth.

    `mass`, of shape (groups, outcomes), is not negative, with a positive sum in each group. `successes` and
    `follow_ups`, of shape (outcomes,), are the outcomes: k of n.
    """
    # No `@` here: with other numbers of threads BLAS may sum in another order, and results must be equal to the bit.
    likelihood = binomial(successes[:, None], follow_ups[:, None], GRID)
    shares = mass / mass.sum(axis=1, keepdims=True)
    density = np.full((len(mass), _POINTS), 1 / _POINTS)
    steps = []

    def inverse_of(density: Floats) -> Floats:
        chance = np.einsum("bg,og->bo", density, likelihood)
        return np.asarray(np.divide(1.0, chance, where=mass > 0, out=np.zeros_like(chance)), dtype=np.float64)

    for _ in range(_ITERATIONS):
        inverse = inverse_of(density)
        factor = np.einsum("bo,og->bg", shares * inverse, likelihood)
        steps.append((density, factor, inverse))
        density = density * factor
    return Mixing(density, inverse_of(density)[:, :, None] * likelihood, mass, likelihood, steps)


def divided_point(bound: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return for each bound the grid point that it divides, and the share of this point's values at or above the bound.

    Bounds are above 0 and at most 1. All values behind later points are at least the bound.
    """
    point = np.searchsorted(_UPPER[1:-2], bound) + 1
    share: Floats = (_UPPER[point] - bound) / (_UPPER - _LOWER)[point]
    return point, share


class Coverage(Metric):
    """The share of prefixes with p >= r. All questions have equal weights, and so have all prefixes of a question.

    It is the probability of p >= r for a random prefix of a random question. Questions are exchangeable, but prefixes
    of one question are not. The ``conformal`` calibrator guarantees 1 - beta for this probability.

    The distribution of p is estimated in up to 20 bins of equal mass by reward. Each prefix contributes its posterior
    probability of p >= r and a correction, which is 0 on average. The correction is the effect of the weight of its k
    on the estimate. With the correction, the interval includes to first order the error of the estimated distributions.
    Where p is known, nothing is estimated: a prefix with a final answer has p = k/n, and every p is at least a reward
    of 0.

    Notes
    -----
    The remaining bias was measured in simulations with known p, 100 questions and n = 8. If the density of p is smooth
    and rewards are not close to 0 or 1, it is below .015: a bound with coverage .90 is measured as .90, whereas the
    share of k/n >= r is .79. The bias is larger where 8 follow-ups cannot distinguish p from r. With most rewards
    within about 1/n of 0 or 1 it reached .13, which is more than the interval covers: an overconfident PRM with
    coverage .21 was measured as .34, whereas the share is .56. More follow-ups reduce the bias. A reward that equals p
    covers it, but no count can show this: the measured coverage is then about .5.
    """

    title, each_level = "Coverage", True
    description = "How often the success probability is at least the reward."

    def measure(self, rows: PrefixRows) -> QuestionRatio:
        """Return the mean of each question. The value is in [0, 1] up to the correction."""
        counts = rows.counts
        covered = _covered(rows, rows.terminal, 1 / counts[rows.question_index])
        values = rows.totals(covered) / counts
        estimated = ~rows.terminal & (rows.reward > 0)
        widening = _widening(values, rows.follow_ups[estimated]) if estimated.any() else 1.0
        return QuestionRatio(values, np.ones(len(counts)), bounds=(0.0, 1.0), widening=widening)

    def described(self, level: float | None = None) -> str:
        """Return the description with the level and its ideal value."""
        if level is None:
            return super().described()
        which = "the median" if level == _MEDIAN else f"level {level:g}, or a point estimate"
        return f"{self.description[:-1]} ({which}): {1 - level:g} is ideal."


def _widening(values: Floats, follow_ups: NDArray[np.integer[Any]]) -> float:
    """Return the factor by which the interval must be wider, for the bias of the estimated distributions.

    Its square is 1 + 40 / q + q b^2 / s^2 for q questions whose values have the standard deviation s. The second term
    is for few questions, whose distributions in 20 bins follow the noise. The third allows for a bias of b = 1 / (8
    n^2) with n follow-ups. More questions do not reduce this bias. Both constants are from simulations with known p.
    """
    questions, bias = len(values), 1 / (8 * float(follow_ups.min()) ** 2)
    variance = max(float(values.var()), 1e-4)
    return float(np.sqrt(1 + _LEARNING / questions + questions * bias**2 / variance))


def _covered(rows: PrefixRows, terminal: Bools, weights: Floats) -> Floats:
    """Return the contribution of each prefix: 0 or 1 if p is known, else an estimate (perhaps slightly outside)."""
    covered = (rows.success_rate >= rows.reward).astype(np.float64)
    unknown = ~terminal & (rows.reward > 0)
    if not unknown.any():
        return covered
    reward, weight = rows.reward[unknown], weights[unknown]
    group = _equal_mass(reward, weight)
    successes, follow_ups = rows.successes[unknown], rows.follow_ups[unknown]
    base = int(follow_ups.max()) + 1
    outcomes, outcome = np.unique(follow_ups * base + successes, return_inverse=True)
    groups, kinds = int(group.max()) + 1, len(outcomes)
    mass = np.bincount(group * kinds + outcome, weights=weight, minlength=groups * kinds).astype(np.float64)
    mixing = fit_mixing(mass.reshape(groups, kinds), outcomes % base, outcomes // base)

    point, share = divided_point(reward)
    by_point = mixing.relative * mixing.density[:, None]
    later = by_point[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] - by_point
    posterior = later[group, outcome, point] + share * by_point[group, outcome, point]
    # The derivative of the weighted sum of posteriors by the density of a group, and by the mass of an outcome.
    shape = by_point.shape
    place = np.ravel_multi_index((group, outcome, point), shape)
    reached, within, summed = (
        np.bincount(place, weights=values, minlength=by_point.size).reshape(shape)
        for values in (weight, weight * share, weight * posterior)
    )
    above = reached.cumsum(axis=2) - reached + within
    by_density = (mixing.relative * (above - summed.sum(axis=2, keepdims=True))).sum(axis=1)
    covered[unknown] = posterior + mixing.by_mass(by_density)[group, outcome]
    return covered


def _equal_mass(reward: Floats, weight: Floats) -> NDArray[np.intp]:
    """Return the bin of each prefix, numbered from 0 without gaps. Equal rewards are in the same bin."""
    shares = np.arange(1, _BINS) / _BINS
    edges = np.unique(np.quantile(reward, shares, weights=weight, method="inverted_cdf"))
    return np.asarray(np.unique(np.searchsorted(edges, reward), return_inverse=True)[1], dtype=np.intp)
