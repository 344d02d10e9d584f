"""Rules of optimal search: stop when the best score in hand is so high that a better one is not worth its cost.

They look at the scores of one question only, and learn from them what scores are still to come. They aim at a high
score, not at a right answer.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, stdtr, stdtrit

from prmcal.arrays import Floats, Ints
from prmcal.registry.contracts.plugin import Count, FinitePositive
from prmcal.registry.strategies.orders import Orders, highest_so_far, sum_so_far
from prmcal.registry.strategies.sequential import Drawn, Outcome, SequentialRule, first_reached
from prmcal.remembered import remembered

_LARGE = 100.0
_LARGEST_LOG_ODDS = 300.0
_COSTS = tuple(-float(each) for each in np.geomspace(0.3, 1e-7, 24))


@dataclass(eq=False)
class Pandora(SequentialRule):
    """Pandora's box with unknown rewards: stop when the best sample is worth as much as the cap.

    The value of a sample is the odds v of its score. After each draw, from the `first`-th on, values above the median m
    are taken as m plus an exponential value, whose mean s is their mean excess. The largest of N values is then
    estimated as K = m + s log(N / 5), and the utility of a value is u(v) = v / (v + K). The cap t solves
    E[max(u(v) - t, 0)] = cost. Stop when the utility of the best sample is at least the cap, and answer with it.

    The expectation has a closed form. It uses the mean s itself, as the authors' code does, and not the upper bound of
    their paper. There at least 20 samples are drawn. `first` is 4 here, since 20 would be most of a budget of 64. A
    trajectory that is too long for the PRM has the odds 0.
    """

    citation = "Kalayci et al. (2025), arXiv:2510.01394"
    reads = ("scores",)
    version = "2"

    budget = ("-cost", _COSTS)
    cost: FinitePositive = 0.01
    """The cost of a sample, in units of the utility. Above 0."""
    first: Count = 4
    """The number of samples that are always drawn. At least 1."""

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when one more sample is expected to add less utility than its cost."""
        losses = _losses(drawn.own["scores"], self.first, drawn.orders)
        return Outcome(first_reached(losses, points), drawn.right_if_best())


@remembered
def _losses(scores: Floats, least: int, orders: Orders) -> Floats:
    """The lowest expected gain of one more sample so far, with a minus sign, of shape (orders, N).

    It is infinite before `least` samples are drawn. `scores` has shape (M,).
    """
    odds = np.exp(np.minimum(np.where(np.isnan(scores), -np.inf, scores), _LARGEST_LOG_ODDS))
    median, scale, best = _hands(odds, orders)
    found = -_gain(median, scale, best, orders.draws)
    found[: least - 1] = -np.inf
    return highest_so_far(found.T, out=found.T)


def _gain(median: Floats, scale: Floats, best: Floats, draws: int) -> Floats:
    """The expected gain in utility of one more sample, for what :func:`_hands` returns, of N = `draws` samples."""
    # Without a spread, no better sample is expected.
    spread = scale > 0
    largest = median + scale * max(float(np.log(draws / 5)), 0.0)
    both = best + largest
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(spread, 0.5 * largest / both * np.exp(-(best - median) / scale), 0.0)
        share *= _scaled_integral(np.where(spread, both / scale, _LARGE))
    return share


def _hands(odds: Floats, orders: Orders) -> tuple[Floats, ...]:
    """Return the median of the samples in hand, the mean excess of those above it, and the best one, after each draw.

    Each has the shape (N, orders). `odds` has shape (M,).
    """
    columns, most = orders.shape
    # The samples in hand ascend along axis 0, between two infinite ones. In each draw one is inserted.
    hand = np.full((most + 2, columns), np.inf)
    hand[0] = -np.inf
    median, scale, best = (np.empty((most, columns)) for _ in range(3))
    for draw, drawn in enumerate(orders.of(odds).T):
        ranks = slice(1, draw + 2)
        hand[ranks] = np.maximum(hand[: draw + 1], np.minimum(hand[ranks], drawn))
        # The median is the mean of two samples, or both are the same one. Those above it are above the lower one.
        lower, above = hand[draw // 2 + 1], hand[(draw + 1) // 2 + 1 : draw + 2]
        median[draw], best[draw] = (lower + above[0]) / 2, above[-1]
        excess = (above - median[draw]).sum(axis=0)
        scale[draw] = excess / np.maximum((above > lower).sum(axis=0), 1)
    return median, scale, best


def _scaled_integral(x: Floats) -> Floats:
    """Return exp(x) E_2(x) for x from 1 on, where E_2 is the exponential integral.

    It is a continued fraction: Abramowitz and Stegun, 5.1.22.
    """
    # The smaller x is, the more terms are needed.
    terms = 6 + int(100 / x.min(initial=_LARGE))
    found = x + (2 * terms + 2)
    for k in range(terms, 0, -1):
        np.divide(k * (k + 1), found, out=found)
        np.subtract(x, found, out=found)
        found += 2 * k
    return np.reciprocal(found, out=found)


_BEACON_COSTS = tuple(-float(each) for each in np.geomspace(3, 1e-4, 24))
_FIRST = 3
_LEADS = np.linspace(0.0, 8.0, 81)
_LOG_COSTS = np.linspace(np.log(1e-6), np.log(30.0), 70)
_NODES = 48


@dataclass(eq=False)
class Beacon(SequentialRule):
    """BEACON: stop when the expected gain in score of going on is worth less than its cost.

    The log-odds of a question's trajectories are taken as normal, with an unknown mean and variance. After k draws with
    the mean m and the sum of squared deviations S, the next one is m + sigma T, where T has Student's t law with k - 1
    degrees of freedom and sigma^2 = (1 + 1/k) S / (k - 1). This is the authors' prior alpha = -1/2, nu = beta = 0, so
    at least 3 samples are drawn. Let z = (max - m) / sigma. Stop when h_k(z) <= cost / sigma, and answer with the
    best-scored sample. h_k is the cost for which stopping and going on are worth the same, if every later decision is
    the best one too; it comes from backward induction from N on. For the last sample it is

        h_{N-1}(z) = E[max(T - z, 0)] = (d + z^2) / (d - 1) f(z) - z (1 - F(z)),   d = k - 1,

    with the density f and the distribution function F of T. The released code has a normal law in place of F. A
    trajectory that is too long for the PRM is drawn, but says nothing.
    """

    citation = "BEACON (2025), arXiv:2510.15945"
    reads = ("scores",)

    budget = ("-cost", _BEACON_COSTS)
    cost: FinitePositive = 0.1
    """The cost of a sample, in units of the log-odds. Above 0."""

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when the reservation cost is at most the cost."""
        costs = _lowest_costs(drawn.own["scores"], drawn.orders)
        return Outcome(first_reached(costs, points), drawn.right_if_best())


@remembered
def _lowest_costs(scores: Floats, orders: Orders) -> Floats:
    """The lowest reservation cost so far, with a minus sign, of shape (orders, N). `scores` has shape (M,)."""
    read = ~np.isnan(scores)
    # Only differences of scores count, and smaller numbers leave smaller rounding errors.
    middle = float(scores[read].mean()) if read.any() else 0.0
    values = np.where(read, scores - middle, 0.0)
    k = np.arange(1, orders.draws + 1)[:, None]
    if not read.all():
        k = sum_so_far(orders.of(read.astype(np.min_scalar_type(orders.draws)))).T
    sums, squares = (sum_so_far(orders.of(each)).T for each in (values, values**2))
    best = orders.of(np.where(read, values, -np.inf))
    highest_so_far(best, out=best)
    found = -_costs(reservation_costs(orders.draws), k.astype(np.int64), sums, squares, best.T)
    return highest_so_far(found.T, out=found.T)


def _costs(table: Floats, k: Ints, sums: Floats, squares: Floats, best: Floats) -> Floats:
    """The reservation cost after k draws with these sums of values and of squares, and the best value."""
    mean = sums / np.maximum(k, 1)
    deviations = np.maximum(squares - k * mean**2, 0.0)
    known = k >= _FIRST
    size = np.maximum(k, _FIRST)
    sigma = np.sqrt((1 + 1 / size) * deviations / (size - 1))
    spread = known & (sigma > 1e-9)
    lead = np.where(spread, best - mean, 0.0) / np.where(spread, sigma, 1.0)
    costs = _interpolated(table, size, lead) * sigma
    return np.where(known, np.where(spread, costs, 0.0), np.inf)


def one_step_gain(lead: Floats, freedom: float) -> Floats:
    """Return E[max(T - z, 0)] for the leads z, where T has Student's t law with `freedom` above 1."""
    log_density = (
        gammaln((freedom + 1) / 2)
        - gammaln(freedom / 2)
        - 0.5 * np.log(freedom * np.pi)
        - (freedom + 1) / 2 * np.log1p(lead**2 / freedom)
    )
    gain = (freedom + lead**2) / (freedom - 1) * np.exp(log_density) - lead * stdtr(freedom, -lead)
    return np.asarray(np.maximum(gain, 0.0), dtype=np.float64)


@remembered
def reservation_costs(most: int) -> Floats:
    """Return h_k(z) on a grid, by backward induction from N.

    Let G_k(z, c) be the expected gain of the best decisions after k draws, in units of sigma, if a sample costs c times
    sigma. With the next draw m + sigma T, the lead z becomes z' and sigma becomes rho sigma, so

        G_k(z, c) = max(0, E[max(T - z, 0) + rho G_{k+1}(z', c / rho)] - c),   G_N = 0,
        rho^2 = (k + 2) (k - 1 + T^2) / (k + 1)^2,   z' = (max(z, T) - T / (k + 1)) / rho.

    G is kept on a grid of leads and of logarithms of costs, and the expectation is a sum over 48 values of T. The
    result, of shape (max(N, 3) + 1, leads), has h_k at the leads 0, .1, ..., 8, for k = 3 to N - 1; 0 for other k.
    """
    found = np.zeros((max(most, _FIRST) + 1, len(_LEADS)))
    costs = np.exp(_LOG_COSTS)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    later = np.zeros((len(_LEADS), len(costs)))
    for k in range(most - 1, _FIRST - 1, -1):
        draws = np.asarray(stdtrit(k - 1, (nodes + 1) / 2))
        grown = np.sqrt((k + 2) * (k - 1 + draws**2)) / (k + 1)
        leads = (np.maximum(_LEADS[:, None], draws) - draws / (k + 1)) / grown
        gain = -costs + one_step_gain(_LEADS, k - 1)[:, None]
        for node in range(_NODES):
            value = _bilinear(later, leads[:, node], _LOG_COSTS - np.log(grown[node]))
            gain += 0.5 * weights[node] * grown[node] * value
        # The gain falls with the cost. Its root is h.
        found[k] = [np.interp(0.0, -row, costs) for row in gain]
        later = np.maximum(gain, 0.0)
    return found


def _bilinear(table: Floats, leads: Floats, log_costs: Floats) -> Floats:
    """The table at all pairs of leads and costs. Beyond its edges it has the values of the edges."""
    row = np.clip(leads / _LEADS[1], 0, len(_LEADS) - 1)
    column = np.clip((log_costs - _LOG_COSTS[0]) / (_LOG_COSTS[1] - _LOG_COSTS[0]), 0, len(_LOG_COSTS) - 1)
    i = np.minimum(row.astype(np.int64), len(_LEADS) - 2)
    j = np.minimum(column.astype(np.int64), len(_LOG_COSTS) - 2)
    x, y = (row - i)[:, None], column - j
    rows = (1 - x) * table[i] + x * table[i + 1]
    return np.asarray((1 - y) * rows[:, j] + y * rows[:, j + 1], dtype=np.float64)


def _interpolated(table: Floats, k: Ints, lead: Floats) -> Floats:
    """h_k at leads between those of the grid."""
    place = np.minimum(np.maximum(lead / _LEADS[1], 0), len(_LEADS) - 1)
    below = np.minimum(place.astype(np.int64), len(_LEADS) - 2)
    share = place - below
    first = k * table.shape[1] + below
    return np.asarray((1 - share) * table.take(first) + share * table.take(first + 1), dtype=np.float64)
