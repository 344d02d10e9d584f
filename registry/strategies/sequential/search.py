"""Rules of optimal search: stop when the best score in hand is so high that a better one is not worth its cost.

They look at the scores of one question only, and learn from them what scores are still to come. They aim at a high
score, not at a right answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.ranges import Count, FinitePositive
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.orders import Orders
from prmcal.registry.strategies.remembered import remembered
from prmcal.registry.strategies.sequential.rule import Drawn, Outcome, SequentialRule, first_at_least

__all__ = ["Pandora"]

_LARGEST_LOG_ODDS = 300.0
_COSTS = tuple(float(each) for each in np.geomspace(0.3, 1e-7, 24))


class Pandora(SequentialRule):
    """Pandora's box with unknown rewards: stop when the best sample is worth as much as the cap.

    The value of a sample is the odds v of its score. After each draw, from the `first`-th on, values above the median m
    are taken as m plus an exponential value, whose mean s is their mean excess. The largest of N values is then
    estimated as K = m + s log(N / 5), and the utility of a value is u(v) = v / (v + K). The cap t solves
    E[max(u(v) - t, 0)] = cost. Stop when the utility of the best sample is at least the cap, and answer with it.

    The expectation has a closed form. It uses the mean s itself, as the authors' code does, and not the upper bound of
    their paper. There at least 20 samples are drawn. `first` is 4 here, since 20 would be most of a budget of 64. A
    trajectory that is too long for the PRM has the odds 0.

    Parameters
    ----------
    cost : float above 0
        The cost of a sample, in units of the utility.
    first : int, at least 1
        The number of samples that are always drawn.
    """

    citation = "Kalayci et al. (2025), arXiv:2510.01394"
    reads = ("scores",)
    version = "2"

    def __init__(self, cost: FinitePositive = 0.01, first: Count = 4) -> None:
        self.cost = cost
        self.first = first

    def point(self, setting: Setting) -> float:
        """Return the cost, with a minus sign: curves ascend with the budget."""
        return -self.cost

    def curve_points(self, setting: Setting) -> tuple[float, ...]:
        """Return costs from .3 to 1e-7."""
        return tuple(-cost for cost in _COSTS)

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when one more sample is expected to add less utility than its cost."""
        gains = _gains_of_one_more(drawn.own["scores"], self.first, drawn.orders)
        return Outcome(first_at_least(-gains, points), drawn.right_if_best())


@remembered
def _gains_of_one_more(scores: NDArray[np.float64], least: int, orders: Orders) -> NDArray[np.float64]:
    """The expected gain in utility of one more sample after each draw, of shape (orders, N).

    It is infinite before `least` samples are drawn. `scores` has shape (M,).
    """
    odds = np.exp(np.minimum(np.where(np.isnan(scores), -np.inf, scores), _LARGEST_LOG_ODDS))
    draws = odds[orders.trajectories.T]
    most, columns = draws.shape
    median, scale, best = (np.zeros(draws.shape) for _ in range(3))
    # The samples in hand ascend along axis 0, between -inf and inf. In each draw a value is inserted.
    hand = np.full((most + 2, columns), np.inf)
    hand[0] = -np.inf
    after = hand.copy()
    for draw, value in enumerate(draws):
        ranks = slice(1, draw + 2)
        np.maximum(hand[: draw + 1], np.minimum(hand[ranks], value), out=after[ranks])
        hand, after = after, hand
        middle = (draw + 1) // 2
        median[draw] = (hand[draw // 2 + 1] + hand[middle + 1]) / 2
        excess = hand[middle + 1 : draw + 2] - median[draw]
        scale[draw] = excess.sum(axis=0) / np.maximum(np.count_nonzero(excess, axis=0), 1)
        best[draw] = hand[draw + 1]
    gains = np.zeros(draws.shape)
    spread = scale > 0
    gains[spread] = _gain(median[spread], scale[spread], best[spread], most)
    gains[: least - 1] = np.inf
    return gains.T


def _gain(
    median: NDArray[np.float64], scale: NDArray[np.float64], best: NDArray[np.float64], most: int
) -> NDArray[np.float64]:
    """The expected gain in utility of one more sample: the integral of u'(x) P(v > x) from the best value on.

    Half of the values are above the median.
    """
    largest = median + scale * max(float(np.log(most / 5)), 0.0)
    share = 0.5 * largest / (best + largest) * np.exp(-(best - median) / scale)
    return np.asarray(share * _scaled_integral((best + largest) / scale), dtype=np.float64)


def _scaled_integral(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(x) E_2(x) for x from 1 on, where E_2 is the exponential integral.

    It is a continued fraction: Abramowitz and Stegun, 5.1.22.
    """
    # The smaller x is, the more terms are needed.
    terms = 6 + int(100 / x.min(initial=100.0))
    found = x + (2 * terms + 2)
    for k in range(terms, 0, -1):
        np.divide(k * (k + 1), found, out=found)
        np.subtract(x, found, out=found)
        found += 2 * k
    return np.reciprocal(found)
