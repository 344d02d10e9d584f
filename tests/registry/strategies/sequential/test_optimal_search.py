"""Rules of optimal search: equal to a slow program that integrates numerically, in every order."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import t as student

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.optimal_search import Beacon, Pandora, one_step_gain, reservation_costs
from prmcal.registry.strategies.orders import Orders
from prmcal.registry.strategies.sequential import Drawn
from tests.registry.strategies.sequential.every_order import (
    Hand,
    best_is_right,
    compare,
    small_pool,
    some_orders,
    world,
)


@pytest.mark.parametrize("most", [5, 30])
def test_pandora_in_every_order(most: int) -> None:
    def value(hand: Hand, question: int) -> float:
        if len(hand) < 2:
            return -np.inf
        odds = [0.0 if np.isnan(one.score) else float(np.exp(one.score)) for one in hand]
        median = float(np.median(odds))
        excess = [each - median for each in odds if each > median]
        if not excess:
            return 0.0
        scale = float(np.mean(excess))
        largest = median + scale * float(np.log(most / 5))

        def utility(x: float) -> float:
            return x / (x + largest) if x + largest else 0.0

        def gained(x: float) -> float:
            return (utility(x) - utility(max(odds))) * float(np.exp(-(x - median) / scale)) / scale

        return -0.5 * float(quad(gained, max(odds), max(odds) + 60 * scale)[0])

    points = (-0.2, -0.05, -0.02, -0.005)
    orders = None if most == 5 else some_orders(most, 4)
    stops = compare(Pandora(first=2), small_pool(8, 6, most), points, value, best_is_right, orders)
    assert len(np.unique(stops)) >= 4


def test_the_largest_value_is_estimated_for_the_whole_budget() -> None:
    # The first 4 of 20 samples have the odds 1, 2, 3 and 6: the median is 2.5, and the mean excess above it is 2.
    scores = np.log([[1.0, 2.0, 3.0, 6.0] * 5])
    pool = Pool(np.ones((1, 20), bool), np.zeros((1, 20), int), scores=scores)
    drawn = Drawn(pool, 0, Orders.these(np.arange(20)[None]), Pandora.reads)
    largest = 2.5 + 2 * np.log(20 / 5)
    gain = quad(lambda x: largest / (x + largest) ** 2 * np.exp(-(x - 2.5) / 2), 6, np.inf)[0] / 2
    stops = Pandora().follow(drawn, (-gain * (1 - 1e-9), -gain * (1 + 1e-9))).stops[:, 0]
    assert stops[0] > 4 and stops[1] == 4


def gain_of_one(lead: float, freedom: int) -> float:
    """E[max(T - lead, 0)], by numerical integration."""
    return float(quad(lambda x: (x - lead) * student.pdf(x, freedom), lead, np.inf)[0])


@lru_cache
def worth_of_two(lead: float, k: int) -> float:
    """The cost at which stopping and drawing up to two more samples are worth the same."""

    def gain(cost: float) -> float:
        def after(x: float) -> float:
            grown = np.sqrt((k + 2) * (k - 1 + x * x)) / (k + 1)
            next_lead = (max(lead, x) - x / (k + 1)) / grown
            second = float(one_step_gain(np.array(next_lead), k)) - cost / grown
            return float((max(x - lead, 0) + grown * max(0.0, second)) * student.pdf(x, k - 1))

        parts = ((-np.inf, -2.0), (-2.0, lead), (lead, lead + 3), (lead + 3, np.inf))
        return sum(float(quad(after, low, high, epsrel=1e-5)[0]) for low, high in parts) - cost

    return float(brentq(gain, 1e-6, 20, rtol=1e-4))


def test_one_step_gains_are_integrals() -> None:
    for freedom in (2, 3, 10, 63):
        for lead in (0.0, 0.3, 1.7, 6.0):
            expected = gain_of_one(lead, freedom)
            assert one_step_gain(np.array(lead), freedom) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("most", [5, 40])
def test_reservation_costs_come_from_looking_ahead(most: int) -> None:
    table = reservation_costs(most)
    leads = np.linspace(0, 8, 81)
    one = [one_step_gain(leads, k - 1) for k in range(3, most)]
    assert table[most - 1] == pytest.approx(one[-1], rel=1e-3, abs=1e-5)
    for lead in (0.0, 1.0, 2.0, 4.0):
        two = worth_of_two(lead, most - 2)
        assert table[most - 2, round(lead * 10)] == pytest.approx(two, rel=0.03, abs=1e-4)
    # To have more draws left is worth at least as much, and a higher lead makes one more draw worth less.
    assert (table[3:most] >= np.array(one) * 0.98 - 1e-5).all()
    assert (np.diff(table[3:most], axis=1) <= 1e-9).all()
    assert (reservation_costs(most + 1)[3:most] >= table[3:most] * 0.999 - 1e-6).all()


def test_beacon_in_every_order() -> None:
    def value(hand: Hand, question: int) -> float:
        scores = [one.score for one in hand if not np.isnan(one.score)]
        k = len(scores)
        if k < 3:
            return -np.inf
        sigma = float(np.std(scores, ddof=1) * np.sqrt(1 + 1 / k))
        if sigma == 0:
            return 0.0
        lead = round(float((max(scores) - np.mean(scores)) / sigma), 12)
        return -sigma * (worth_of_two(lead, 3) if k == 3 else gain_of_one(lead, k - 1))

    stops = compare(Beacon(), small_pool(11), (-2.1, -0.9, -0.45), value, best_is_right)
    assert set(np.unique(stops)) == {3, 4, 5}


def test_equal_scores_stop_at_once_and_far_scores_do_not_overflow() -> None:
    pool = world(9, 4, 16)
    same = Pool(pool.correct, pool.answers, scores=np.zeros(pool.correct.shape))
    assert Pandora(first=3).answer(same, Setting(16)).samples.tolist() == [3.0] * 4
    assert Beacon().answer(same, Setting(16)).samples.tolist() == [3.0] * 4
    unread = Pool(pool.correct, pool.answers, scores=np.full(pool.correct.shape, np.nan))
    assert Beacon().answer(unread, Setting(16)).samples.tolist() == [16.0] * 4
    far = Pool(pool.correct, pool.answers, scores=pool.scores * 400)
    assert np.isfinite(Pandora().answer(far, Setting(16)).accuracy).all()


def test_only_differences_of_scores_count_for_beacon() -> None:
    pool = world(12, 6, 16)
    moved = Pool(pool.correct, pool.answers, scores=pool.scores * 4 + 1000)
    one, other = Beacon(0.2).answer(pool, Setting(16)), Beacon(0.8).answer(moved, Setting(16))
    assert other.samples == pytest.approx(one.samples, abs=0.01)


def test_a_higher_cost_draws_less() -> None:
    pool = world(10, 10, 32)
    beacon = [each.samples.mean() for each in Beacon().sweep(pool, Setting(32))]
    assert beacon == sorted(beacon) and beacon[0] < 3.5 and beacon[-1] > 20
    budgets = [each.samples.mean() for each in Pandora().sweep(pool, Setting(32))]
    assert budgets == sorted(budgets) and budgets[0] < 6 and budgets[-1] > 2 * budgets[0]
    fewest = [Pandora(0.02, first).answer(pool, Setting(32)).samples.min() for first in (2, 10)]
    assert fewest[0] < 10 <= fewest[1]
