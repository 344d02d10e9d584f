"""Curves of accuracy against budget, their areas, the frontier, and selective answering, on known cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.db.statistics.budgets import Curve
from prmcal.harness.jobs.curves import (
    TARGETS,
    RiskCoverageArea,
    adaptive_curve,
    area_under,
    fixed_curve,
    risk_at,
)
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import PoolStrategy, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import best_of_each
from tests.registry.create import create_as

BOOTSTRAP = Bootstrap(replicates=200, seed=1)
N = 16


def world(questions: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    chance = random.uniform(0.02, 0.95, questions)
    correct = random.random((questions, N)) < chance[:, None]
    return random.normal(correct.astype(float), 1.0), correct, chance


def area(table: np.ndarray, points: Curve) -> tuple[float, float, float]:
    return area_under(fixed_curve(table, [1, table.shape[1]]), points, table.shape[1], BOOTSTRAP)


def test_the_targets_are_those_of_the_paper() -> None:
    np.testing.assert_allclose(np.log1p(-np.array(TARGETS)), [-0.125, -0.25, -0.5, -1, -2, -3, -4, -5])


def test_every_point_is_what_the_strategy_says() -> None:
    scores, correct, chance = world()
    settings = [chance, np.clip(chance + 0.2, 0, 1), np.append(np.nan, chance[1:])]
    curve = adaptive_curve(best_of_each(scores, correct, N), settings, TARGETS)
    ias = create_as(PoolStrategy, strategies, "best-of-n + IAS")
    points = [(rewards, target) for rewards in settings for target in TARGETS]
    for place, (rewards, target) in enumerate(points):
        pool = Pool(correct, np.where(correct, 0, 1), scores, rewards)
        expected = ias.answer(pool, Setting(N, target))
        assert curve.accuracy[place] == pytest.approx(expected.accuracy.mean(), abs=1e-12)
        assert curve.cost[place] == pytest.approx(expected.samples.mean())


def test_a_curve_is_within_the_error_of_drawing() -> None:
    scores, correct, chance = world()
    curve = adaptive_curve(best_of_each(scores, correct, N), chance, [0.5, 0.9])
    random = np.random.default_rng(2)
    for target, exact, mean in zip([0.5, 0.9], curve.accuracy, curve.cost, strict=True):
        pool = Pool(correct, np.where(correct, 0, 1), scores, chance)
        ias = create_as(PoolStrategy, strategies, "best-of-n + IAS")
        samples = ias.answer(pool, Setting(N, target)).samples.astype(int)
        assert samples.mean() == pytest.approx(mean)
        trials = []
        for _ in range(300):
            order = np.argsort(random.random(scores.shape), axis=1)
            hidden = np.arange(N) >= samples[:, None]
            drawn = np.where(hidden, -np.inf, np.take_along_axis(scores, order, axis=1))
            best = np.take_along_axis(order, drawn.argmax(axis=1)[:, None], axis=1)
            trials.append(np.take_along_axis(correct, best, axis=1).mean())
        assert abs(np.mean(trials) - exact) < 4 * np.std(trials) / np.sqrt(300)


def test_intervals_hold_the_value() -> None:
    scores, correct, chance = world()
    curve = adaptive_curve(best_of_each(scores, correct, N), chance, TARGETS)
    found = curve.columns("samples")
    assert np.all((found["samples_low"] <= curve.cost) & (curve.cost <= found["samples_high"]))
    assert np.all((found["accuracy_low"] < curve.accuracy) & (curve.accuracy < found["accuracy_high"]))


def test_only_a_fixed_number_of_samples_is_known_for_certain() -> None:
    always_right = np.ones((50, N))
    fixed = fixed_curve(always_right, [1, 3, N]).columns("samples")
    assert fixed["samples_low"].tolist() == fixed["samples_high"].tolist() == [1, 3, N]
    assert np.all((fixed["accuracy_low"] > 0.9) & (fixed["accuracy_low"] < 0.95))
    assert np.all(fixed["accuracy_high"] == 1)
    # Rewards that ask for one sample of each of these 50 questions could ask for more of another.
    adaptive = adaptive_curve(always_right, np.ones(50), [0.5]).columns("samples")
    assert adaptive["samples_low"][0] <= 1 < adaptive["samples_high"][0] < 3


def test_a_flat_curve_has_its_height_as_area() -> None:
    table = np.full((5, N), 0.7)
    value, low, high = area(table, fixed_curve(table, [2, 3, 8]))
    assert value == pytest.approx(0.7)
    assert low == pytest.approx(0.7) and high == pytest.approx(0.7)


def test_ends_alone_are_mixed() -> None:
    """From 0 to 1 in a straight line over the budget: 1 / log N times the integral of (b - 1) / (N - 1) d log b."""
    table = np.tile(np.linspace(0, 1, N), (4, 1))
    expected = ((N - 1) - np.log(N)) / ((N - 1) * np.log(N))
    assert area(table, fixed_curve(table, []))[0] == pytest.approx(expected)
    # Points on that line change nothing, in any order, nor does a point that is there twice.
    assert area(table, fixed_curve(table, [9, 4, 4, 2]))[0] == pytest.approx(expected)


def test_accuracy_that_grows_with_each_doubling_has_half_its_height() -> None:
    """Accuracy log n / log N has area one half, less what mixing loses between whole numbers of samples."""
    table = np.tile(np.log(np.arange(1, 1025)) / np.log(1024), (3, 1))
    dense = fixed_curve(table, list(range(1, 1025)))
    assert area(table, dense)[0] == pytest.approx(0.5, abs=0.005)


@given(st.integers(0, 1000))
def test_the_area_is_the_integral(seed: int) -> None:
    scores, correct, chance = world(questions=12, seed=seed)
    table = best_of_each(scores, correct, N)
    curve = adaptive_curve(table, chance, TARGETS)
    order = np.argsort(curve.cost, kind="stable")
    cost = np.concatenate([[1.0], curve.cost[order], [float(N)]])
    gain = np.concatenate([[table[:, 0].mean()], curve.accuracy[order], [table[:, -1].mean()]])
    budgets = np.exp(np.linspace(0, np.log(N), 20001))
    expected = np.interp(budgets, cost, gain).mean()
    assert area(table, curve)[0] == pytest.approx(expected, abs=1e-3)


def test_knowing_the_success_rate_has_the_larger_area() -> None:
    _, correct, chance = world(questions=400)
    table = best_of_each(correct.astype(float), correct, N)
    knowing = area(table, adaptive_curve(table, chance, TARGETS))
    guessing = np.random.default_rng(3).permutation(chance)
    assert knowing[1] > area(table, adaptive_curve(table, guessing, TARGETS))[0]


def test_one_question_has_no_interval() -> None:
    table = np.full((1, N), 0.5)
    value, low, high = area(table, fixed_curve(table, [2]))
    assert value == pytest.approx(0.5)
    assert np.isnan(low) and np.isnan(high)


def test_an_area_needs_a_range_of_budgets() -> None:
    table = np.full((2, 1), 0.5)
    with pytest.raises(ValueError, match=r"N of at least 2\. Got N = 1"):
        area(table, fixed_curve(table, [1]))


def test_many_resamples_have_the_areas_of_each() -> None:
    random = np.random.default_rng(7)
    metric = RiskCoverageArea(random.integers(0, 9, 50) / 9, random.random(50), np.arange(50))
    weights = random.multinomial(50, np.full(50, 1 / 50), size=3000).astype(float)
    alone = [metric.values(row[None])[0] for row in weights]
    np.testing.assert_allclose(metric.values(weights), alone, rtol=1e-12)


def risk_area(rewards: list[float], accuracy: list[float], weights: list[float] | None = None) -> float:
    metric = RiskCoverageArea(rewards, accuracy, np.arange(len(rewards)))
    if weights is None:
        return metric.value()
    return float(metric.values(np.array([weights], dtype=float))[0])


def test_rewards_that_say_nothing_risk_what_answering_all_does() -> None:
    assert risk_area([0.5] * 4, [1.0, 0.0, 0.5, 0.5]) == pytest.approx(0.5)


def test_a_perfect_order_has_the_smallest_area_and_its_reverse_the_largest() -> None:
    # Right first: risk is 0 up to half, then (c - 1/2) / c: 1/2 - log(2) / 2.
    good = risk_area([0.9, 0.1], [1.0, 0.0])
    bad = risk_area([0.1, 0.9], [1.0, 0.0])
    assert good == pytest.approx(0.5 - np.log(2) / 2)
    assert bad == pytest.approx(0.5 + np.log(2) / 2)
    assert risk_area([0.9, np.nan], [1.0, 0.0]) == pytest.approx(good)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1), st.integers(1, 3)), min_size=1, max_size=8))
def test_a_question_drawn_twice_is_two_questions(rows: list[tuple[int, float, int]]) -> None:
    rewards, accuracy, times = (list(column) for column in zip(*rows, strict=True))
    repeated = [(r / 4, a) for r, a, t in rows for _ in range(t)]
    twice = risk_area([r for r, _ in repeated], [a for _, a in repeated])
    assert risk_area([r / 4 for r in rewards], accuracy, times) == pytest.approx(twice)


def test_answering_above_a_threshold() -> None:
    rewards, accuracy = [0.9, 0.6, 0.2, np.nan], [1.0, 0.5, 0.0, 1.0]
    found = risk_at([0.0, 0.5, 0.9, 0.95], rewards, accuracy)
    assert found["coverage"].tolist() == [0.75, 0.5, 0.25, 0.0]
    assert found["risk"].tolist() == [0.5, 0.25, 0.0, 0.0]
    for name in ("coverage", "risk"):
        low, high = found[f"{name}_low"][:2], found[f"{name}_high"][:2]
        assert np.all((low <= found[name][:2]) & (found[name][:2] <= high))
    # One answer has a risk but no interval, and no answer has neither.
    assert np.isnan(found["risk_low"][2:]).all() and np.isfinite(found["coverage_low"]).all()


def test_many_right_answers_do_not_make_the_risk_zero() -> None:
    found = risk_at([0.5], np.repeat([0.9, 0.1], [100, 50]), np.ones(150))
    assert found["risk"] == 0 and found["risk_low"] == 0
    assert found["risk_high"] == pytest.approx(0.0335, abs=1e-3)
    assert found["coverage_low"] < 2 / 3 < found["coverage_high"]
