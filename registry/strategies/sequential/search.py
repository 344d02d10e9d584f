"""Rules of optimal search: stop when the best score in hand is so high that a better one is not worth its cost.

They look at the scores of one question only, and learn from them what scores are still to come. They aim at a high
score, not at a right answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.ranges import Count, FinitePositive
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.orders import Orders, highest_so_far
from prmcal.registry.strategies.sequential.rule import Drawn, Outcome, SequentialRule, first_reached
from prmcal.remembered import remembered

__all__ = ["Pandora"]

_LARGE = 100.0
_DRAWS_TOGETHER = 16
"""Draws whose gains are computed together. What is needed for them stays in the cache of the processor."""
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
        losses = _losses(drawn.own["scores"], self.first, drawn.orders)
        return Outcome(first_reached(losses, points), drawn.right_if_best())


@remembered
def _losses(scores: NDArray[np.float64], least: int, orders: Orders) -> NDArray[np.float64]:
    """The lowest expected gain of one more sample so far, with a minus sign, of shape (orders, N).

    It is infinite before `least` samples are drawn. `scores` has shape (M,).
    """
    odds = np.exp(np.minimum(np.where(np.isnan(scores), -np.inf, scores), _LARGEST_LOG_ODDS))
    median, scale, best = _hands(odds, orders)
    found = np.empty(orders.shape[::-1])
    for first in range(0, len(found), _DRAWS_TOGETHER):
        some = slice(first, first + _DRAWS_TOGETHER)
        np.negative(_gain(median[some], scale[some], best[some], orders.draws), out=found[some])
    found[: least - 1] = -np.inf
    return highest_so_far(found.T, out=found.T)


def _gain(
    median: NDArray[np.float64], scale: NDArray[np.float64], best: NDArray[np.float64], draws: int
) -> NDArray[np.float64]:
    """The expected gain in utility of one more sample, for what :func:`_hands` returns, of N = `draws` samples."""
    # Without a spread, no better sample is expected.
    spread = scale > 0
    largest = median + scale * max(float(np.log(draws / 5)), 0.0)
    both = best + largest
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(spread, 0.5 * largest / both * np.exp(-(best - median) / scale), 0.0)
        share *= _scaled_integral(np.where(spread, both / scale, _LARGE))
    return share


def _hands(odds: NDArray[np.float64], orders: Orders) -> tuple[NDArray[np.float64], ...]:
    """Return the median of the samples in hand, the mean excess of those above it, and the best one, after each draw.

    Each has the shape (N, orders). `odds` has shape (M,).
    """
    # The samples in hand are numbers, from 1 upwards, that ascend like the odds. Small integers are sorted fastest.
    different, which = np.unique(odds, return_inverse=True)
    numbers = (which + 1).astype(np.min_scalar_type(len(odds) + 1))
    values = np.concatenate([[0.0], different])
    # They ascend along axis 0, between the lowest and the highest number. In each draw one is inserted.
    columns, most = orders.shape
    hand = np.full((most + 2, columns), len(odds) + 1, numbers.dtype)
    hand[0] = 0
    after, room = hand.copy(), np.empty((most // 2 + 1, columns))
    median, scale, best = (np.empty((most, columns)) for _ in range(3))
    for draw, drawn in enumerate(orders.trajectories.T):
        ranks = slice(1, draw + 2)
        np.maximum(hand[: draw + 1], np.minimum(hand[ranks], numbers.take(drawn)), out=after[ranks])
        hand, after = after, hand
        middle = (draw + 1) // 2
        above = hand[middle + 1 : draw + 2]
        excess = values.take(above, out=room[: len(above)], mode="clip")
        # The median is the mean of two samples, or both are the same one. Those above it are above the lower one.
        lower = hand[draw // 2 + 1]
        best[draw] = excess[-1]
        median[draw] = (values.take(lower) + excess[0]) / 2
        excess -= median[draw]
        count = (above > lower).sum(axis=0, dtype=numbers.dtype)
        np.divide(excess.sum(axis=0), np.maximum(count, 1), out=scale[draw])
    return median, scale, best


def _scaled_integral(x: NDArray[np.float64]) -> NDArray[np.float64]:
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
