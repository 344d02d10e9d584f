"""Rules of optimal search: equal to a slow program that integrates numerically, in every order."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.sequential.rule import drawn_in
from prmcal.registry.strategies.sequential.search import Pandora
from tests.registry.strategies.sequential.every_order import Hand, best_is_right, compare, small_pool, world


def test_pandora_in_every_order() -> None:
    def value(hand: Hand, question: int) -> float:
        if len(hand) < 2:
            return -np.inf
        odds = [0.0 if np.isnan(one.score) else float(np.exp(one.score)) for one in hand]
        median = float(np.median(odds))
        excess = [each - median for each in odds if each > median]
        if not excess:
            return 0.0
        scale = float(np.mean(excess))
        largest = median  # log(N / 5) is 0 for N = 5.

        def utility(x: float) -> float:
            return x / (x + largest) if x + largest else 0.0

        def gained(x: float) -> float:
            return (utility(x) - utility(max(odds))) * float(np.exp(-(x - median) / scale)) / scale

        return -0.5 * float(quad(gained, max(odds), max(odds) + 60 * scale)[0])

    points = (-0.2, -0.05, -0.02, -0.005)
    stops = compare(Pandora(first=2), small_pool(8), points, value, best_is_right)
    assert len(np.unique(stops)) == 4


def test_the_largest_value_is_estimated_for_the_whole_budget() -> None:
    # The first 4 of 20 samples have the odds 1, 2, 3 and 6: the median is 2.5, and the mean excess above it is 2.
    scores = np.log([[1.0, 2.0, 3.0, 6.0] * 5])
    pool = Pool(np.ones((1, 20), bool), np.zeros((1, 20), int), scores=scores)
    drawn = drawn_in(pool, 0, np.arange(20)[None], Pandora.reads)
    largest = 2.5 + 2 * np.log(20 / 5)
    gain = quad(lambda x: largest / (x + largest) ** 2 * np.exp(-(x - 2.5) / 2), 6, np.inf)[0] / 2
    stops = Pandora().follow(drawn, (-gain * 0.999, -gain * 1.001)).stops[:, 0]
    assert stops[0] > 4 and stops[1] == 4


def test_equal_scores_stop_at_once_and_far_scores_do_not_overflow() -> None:
    pool = world(9, 4, 16)
    same = Pool(pool.correct, pool.answers, scores=np.zeros(pool.correct.shape))
    assert Pandora(first=3).answer(same, Setting(16)).samples.tolist() == [3.0] * 4
    far = Pool(pool.correct, pool.answers, scores=pool.scores * 400)
    assert np.isfinite(Pandora().answer(far, Setting(16)).accuracy).all()


def test_a_higher_cost_draws_less() -> None:
    pool = world(10, 10, 32)
    budgets = [each.samples.mean() for each in Pandora().sweep(pool, Setting(32))]
    assert budgets == sorted(budgets) and budgets[0] < 6 and budgets[-1] > 2 * budgets[0]
    fewest = [Pandora(0.02, first).answer(pool, Setting(32)).samples.min() for first in (2, 10)]
    assert fewest[0] < 10 <= fewest[1]
