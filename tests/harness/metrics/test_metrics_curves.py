"""Curves of accuracy against budget, on known cases."""

from __future__ import annotations

import numpy as np
import pytest

from prmcal.harness.jobs.curves import (
    TARGETS,
    adaptive_curve,
    fixed_curve,
)
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance, PoolStrategy
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import best_of_each
from tests.registry.create import create_as

N = 16


def world(questions: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    chance = random.uniform(0.02, 0.95, questions)
    correct = random.random((questions, N)) < chance[:, None]
    return random.normal(correct.astype(float), 1.0), correct, chance


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
        expected = ias.answer(pool, Allowance(N, target))
        assert curve.accuracy[place] == pytest.approx(expected.accuracy.mean(), abs=1e-12)
        assert curve.cost[place] == pytest.approx(expected.samples.mean())


def test_a_curve_is_within_the_error_of_drawing() -> None:
    scores, correct, chance = world()
    curve = adaptive_curve(best_of_each(scores, correct, N), chance, [0.5, 0.9])
    random = np.random.default_rng(2)
    for target, exact, mean in zip([0.5, 0.9], curve.accuracy, curve.cost, strict=True):
        pool = Pool(correct, np.where(correct, 0, 1), scores, chance)
        ias = create_as(PoolStrategy, strategies, "best-of-n + IAS")
        samples = ias.answer(pool, Allowance(N, target)).samples.astype(int)
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
