"""Rules of optimal search: stop when the best score in hand is so high that a better one is not worth its cost.

They look at the scores of one question only, and learn from them what scores are still to come. They aim at a high
score, not at a right answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expn

from prmcal.registry.contracts.ranges import Count, FinitePositive
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.choices import right_if_best
from prmcal.registry.strategies.sequential.rule import Drawn, Outcome, SequentialRule, first_at_least

__all__ = ["Pandora"]

_LARGEST_LOG_ODDS = 300.0
_COSTS = tuple(float(each) for each in np.geomspace(0.3, 1e-7, 24))
_ASYMPTOTIC = 50.0


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
        scores = drawn.values["scores"]
        log_odds = np.where(np.isnan(scores), -np.inf, scores)
        odds = np.exp(np.clip(log_odds, -np.inf, _LARGEST_LOG_ODDS))
        gains = np.full(odds.shape, np.inf)
        for draw in range(min(self.first, odds.shape[1]) - 1, odds.shape[1]):
            gains[:, draw] = _gain_of_one_more(odds[:, : draw + 1], odds.shape[1])
        return Outcome(first_at_least(-gains, points), right_if_best(scores, drawn.correct))


def _gain_of_one_more(values: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """The expected gain in utility of one more sample after the samples with these values, of shape (orders,)."""
    ranked = np.sort(values, axis=1)
    size = ranked.shape[1]
    median = (ranked[:, (size - 1) // 2] + ranked[:, size // 2]) / 2
    excess = ranked - median[:, None]
    above = np.count_nonzero(excess > 0, axis=1)
    scale = np.maximum(excess, 0).sum(axis=1) / np.maximum(above, 1)
    spread = scale > 0
    scale, best = scale[spread], ranked[spread, -1]
    middle = median[spread]
    largest = middle + scale * max(float(np.log(most / 5)), 0.0)
    reach = (best + largest) / scale
    gains = np.zeros(len(values))
    # The integral of u'(x) P(v > x) from the best value on. Half of the values are above the median.
    gains[spread] = (
        0.5 * largest / (best + largest) * np.exp(-(best - middle) / scale) * _scaled_integral(reach)
    )
    return gains


def _scaled_integral(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(x) E_2(x), where E_2 is the exponential integral. For large x: Abramowitz and Stegun, 5.1.52."""
    near = np.minimum(x, _ASYMPTOTIC)
    far = np.maximum(x, _ASYMPTOTIC) + 2
    series = (1 + 2 / far**2 + 2 * (2 - 2 * (far - 2)) / far**4) / far
    return np.where(x < _ASYMPTOTIC, np.exp(near) * expn(2, near), series)
