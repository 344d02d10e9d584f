"""BEACON (2025), as a plugin: stop when the expected gain in score of going on is worth less than its cost.

prmcal check examples/beacon.py
prmcal run grid.yaml --plugin examples/beacon.py      # with `- BEACON` in the strategies of the grid
"""

from functools import lru_cache

import numpy as np
from scipy.ndimage import map_coordinates
from scipy.special import gammaln, stdtr, stdtrit

from prmcal import Drawn, Outcome, SequentialRule, first_at_least, strategy

_FIRST = 3
_LEADS = np.linspace(0.0, 8.0, 81)
_LOG_COSTS = np.linspace(np.log(1e-6), np.log(30.0), 70)
_NODES = 48
_NO_SPREAD = 1e-9


@strategy("BEACON")
class Beacon(SequentialRule):
    """Stop when the reservation cost is at most the cost, and answer with the best-scored sample.

    The log-odds of a question's trajectories are taken as normal, with an unknown mean and variance. After k draws with
    the mean m and the sum of squared deviations S, the next one is m + sigma T, where T has Student's t distribution
    with k - 1 degrees of freedom and sigma^2 = (1 + 1/k) S / (k - 1). This is the authors' prior alpha = -1/2, nu =
    beta = 0, so at least 3 samples are drawn. Let z = (max - m) / sigma. Stop when h_k(z) <= cost / sigma. `cost` is
    that of a sample, in units of the log-odds. h_k is the cost for which stopping and going on are worth the same, if
    every later decision is the best one too. The released code has a normal distribution in place of Student's. A
    trajectory that is too long for the PRM is drawn, but says nothing.
    """

    citation = "BEACON (2025), arXiv:2510.15945"
    reads = ("scores",)
    budget = ("-cost", tuple(-float(cost) for cost in np.geomspace(3, 1e-4, 24)))

    def __init__(self, cost: float = 0.1) -> None:
        self.cost = cost

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when the reservation cost is at most the cost."""
        scores = drawn.values["scores"]
        is_scored = ~np.isnan(scores)
        # Only differences of scores count, and smaller numbers leave smaller rounding errors.
        values = np.where(is_scored, scores - (scores[is_scored].mean() if is_scored.any() else 0.0), 0.0)
        k = is_scored.cumsum(axis=1)
        mean = values.cumsum(axis=1) / np.maximum(k, 1)
        deviations = np.maximum((values**2).cumsum(axis=1) - k * mean**2, 0.0)
        best = np.maximum.accumulate(np.where(is_scored, values, -np.inf), axis=1)
        size = np.maximum(k, _FIRST)
        sigma = np.sqrt((1 + 1 / size) * deviations / (size - 1))
        spread = (k >= _FIRST) & (sigma > _NO_SPREAD)
        lead = np.where(spread, best - mean, 0.0) / np.where(spread, sigma, 1.0)
        table = reservation_costs(scores.shape[1])
        costs = map_coordinates(table, [size, lead / _LEADS[1]], order=1, mode="nearest") * sigma
        costs = np.where(spread, costs, np.where(k < _FIRST, np.inf, 0.0))
        return Outcome(first_at_least(-costs, points), drawn.right_if_best())


def one_step_gain(lead: np.ndarray, freedom: float) -> np.ndarray:
    """Return E[max(T - z, 0)] for the leads z, where T has Student's t distribution with `freedom` above 1.

    It is (d + z^2) / (d - 1) f(z) - z (1 - F(z)) for d degrees of freedom, with the density f and the distribution
    function F of T.
    """
    log_density = (
        gammaln((freedom + 1) / 2)
        - gammaln(freedom / 2)
        - 0.5 * np.log(freedom * np.pi)
        - (freedom + 1) / 2 * np.log1p(lead**2 / freedom)
    )
    gain = (freedom + lead**2) / (freedom - 1) * np.exp(log_density) - lead * stdtr(freedom, -lead)
    return np.maximum(gain, 0.0)


@lru_cache
def reservation_costs(maximum: int) -> np.ndarray:
    """Return h_k(z) on a grid, by backward induction from N.

    Let G_k(z, c) be the expected gain of the best decisions after k draws, in units of sigma, if a sample costs c times
    sigma. With the next draw m + sigma T, the lead z becomes z' and sigma becomes rho sigma, so

        G_k(z, c) = max(0, E[max(T - z, 0) + rho G_{k+1}(z', c / rho)] - c),   G_N = 0,
        rho^2 = (k + 2) (k - 1 + T^2) / (k + 1)^2,   z' = (max(z, T) - T / (k + 1)) / rho.

    G is kept on a grid of leads and of logarithms of costs, and the expectation is a sum over 48 values of T. The
    result, of shape (max(N, 3) + 1, leads), has h_k at the leads 0, .1, ..., 8, for k = 3 to N - 1; 0 for other k.
    """
    costs_by_draws = np.zeros((max(maximum, _FIRST) + 1, len(_LEADS)))
    costs = np.exp(_LOG_COSTS)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    next_gain = np.zeros((len(_LEADS), len(costs)))
    for k in range(maximum - 1, _FIRST - 1, -1):
        draws = stdtrit(k - 1, (nodes + 1) / 2)
        grown = np.sqrt((k + 2) * (k - 1 + draws**2)) / (k + 1)
        leads = (np.maximum(_LEADS[:, None], draws) - draws / (k + 1)) / grown
        gain = one_step_gain(_LEADS, k - 1)[:, None] - costs
        for weight, growth, lead in zip(weights, grown, leads.T, strict=True):
            # Beyond its edges, the grid has the values of the edges.
            rows = lead / _LEADS[1]
            columns = (_LOG_COSTS - np.log(growth) - _LOG_COSTS[0]) / (_LOG_COSTS[1] - _LOG_COSTS[0])
            places = np.meshgrid(rows, columns, indexing="ij")
            gain += 0.5 * weight * growth * map_coordinates(next_gain, places, order=1, mode="nearest")
        # The gain falls with the cost. Its root is h.
        costs_by_draws[k] = [np.interp(0.0, -row, costs) for row in gain]
        next_gain = np.maximum(gain, 0.0)
    return costs_by_draws
