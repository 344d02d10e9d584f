"""Pandora's box with unknown rewards (Kalayci et al., 2025), as a plugin.

It stops when the best sample is so good that a better one is not worth its cost. It aims at a high score, not at a
right answer, and learns from nothing but the scores of the question itself.

    prmcal check examples/pandora.py
    prmcal run grid.yaml --plugin examples/pandora.py      # with `- pandora` in the strategies of the grid
"""

import numpy as np
from scipy.special import expn

from prmcal import Drawn, Outcome, SequentialRule, first_at_least, strategy

_LARGEST_LOG_ODDS = 300.0
_FAR = 500.0


@strategy("pandora")
class Pandora(SequentialRule):
    """Stop when the utility of the best sample is at least the cap, and answer with it.

    The value of a sample is the odds v of its score. After each draw, from the `first`-th on, values above the median m
    are taken as m plus an exponential value, whose mean s is their mean excess. The largest of N values is then
    estimated as K = m + s log(N / 5), and the utility of a value is u(v) = v / (v + K). The cap t solves
    E[max(u(v) - t, 0)] = cost. `cost` is that of a sample, in units of the utility.

    It uses the mean s itself, as the authors' code does, and not the upper bound of their paper. There at least 20
    samples are drawn. `first` is 4 here, since 20 would be most of a budget of 64. A trajectory that is too long for
    the PRM has the odds 0.
    """

    citation = "Kalayci et al. (2025), arXiv:2510.01394"
    reads = ("scores",)
    budget = ("-cost", tuple(-float(cost) for cost in np.geomspace(0.3, 1e-7, 24)))

    def __init__(self, cost: float = 0.01, first: int = 4) -> None:
        self.cost = cost
        self.first = first

    def follow(self, drawn: Drawn, points: tuple[float, ...]) -> Outcome:
        """Stop when one more sample is expected to add less utility than its cost."""
        scores = drawn.values["scores"]
        odds = np.exp(np.minimum(np.where(np.isnan(scores), -np.inf, scores), _LARGEST_LOG_ODDS))
        orders, maximum = odds.shape
        gain = np.full((orders, maximum), np.inf)
        for draws in range(min(self.first, maximum), maximum + 1):
            gain[:, draws - 1] = expected_gain(odds[:, :draws], maximum)
        return Outcome(first_at_least(-gain, points), drawn.right_if_best())


def expected_gain(odds: np.ndarray, maximum: int) -> np.ndarray:
    """Return how much utility one more sample is expected to add, of shape (orders,).

    `odds`, of shape (orders, drawn), are those of the samples in hand, and `maximum` is N.
    """
    best, median = odds.max(axis=1), np.median(odds, axis=1)
    above = odds > median[:, None]
    excess = np.where(above, odds - median[:, None], 0.0)
    scale = excess.sum(axis=1) / np.maximum(above.sum(axis=1), 1)
    # Without a spread, no better sample is expected.
    spread = scale > 0
    scale = np.where(spread, scale, 1.0)
    largest = median + scale * max(float(np.log(maximum / 5)), 0.0)
    total = np.where(spread, best + largest, 1.0)
    share = 0.5 * largest / total * np.exp(-(best - median) / scale)
    return np.where(spread, share * _scaled_integral(total / scale), 0.0)


def _scaled_integral(x: np.ndarray) -> np.ndarray:
    """exp(x) E_2(x), where E_2 is the exponential integral."""
    near = np.minimum(x, _FAR)
    return np.where(x < _FAR, np.exp(near) * expn(2, near), 1 / (x + 2))
