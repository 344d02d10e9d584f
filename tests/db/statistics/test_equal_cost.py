"""Accuracy at equal cost, and the frontier of significant differences, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from prmcal.db.statistics.budgets import at_equal_cost, frontier, half_widths_at_once, more_accurate, verdict

QUESTIONS, MOST = 200, 16


def pool(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Accuracies 1 - (1 - p)^n, and numbers of samples that are larger for small p."""
    generator = np.random.default_rng(seed)
    p = generator.beta(0.6, 0.9, QUESTIONS)
    accuracy = 1 - (1 - p[:, None]) ** np.arange(1, MOST + 1)
    guesses = np.clip(p + generator.normal(0, 0.2, QUESTIONS), 0.02, 0.98)
    samples = np.clip(np.ceil(np.log(0.1) / np.log(1 - guesses)), 1, MOST).astype(np.int64)
    return accuracy, samples


def brute(accuracy: NDArray[np.float64], samples: NDArray[np.int64]) -> float:
    """The difference, question by question, with the fixed n drawn as a strategy would draw it."""
    mean = samples.mean()
    below = int(mean)
    chances = {below: 1 - (mean - below), min(below + 1, MOST): mean - below}
    own = [row[n - 1] for row, n in zip(accuracy, samples, strict=True)]
    fixed = [sum(chance * row[n - 1] for n, chance in chances.items()) for row in accuracy]
    return float(np.mean(own) - np.mean(fixed))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_difference_and_its_error_are_those_of_resampled_questions(seed: int) -> None:
    accuracy, samples = pool(seed)
    found = at_equal_cost(accuracy, samples[:, None])
    assert found["samples"][0] == pytest.approx(samples.mean())
    assert found["difference"][0] == pytest.approx(brute(accuracy, samples))
    assert found["fixed"][0] + found["difference"][0] == pytest.approx(
        np.take_along_axis(accuracy, samples[:, None] - 1, axis=1).mean()
    )
    generator = np.random.default_rng(9)
    drawn = [generator.integers(0, QUESTIONS, QUESTIONS) for _ in range(2000)]
    resampled = [brute(accuracy[each], samples[each]) for each in drawn]  # each has a mean cost of its own
    half = (found["high"][0] - found["low"][0]) / 2
    assert half == pytest.approx(1.96 * np.std(resampled), rel=0.1)


def test_the_estimated_cost_widens_the_interval_where_samples_buy_much() -> None:
    accuracy, _ = pool(2)
    samples = np.random.default_rng(3).permutation(np.repeat([1, 4], QUESTIONS // 2))[:, None]
    found = at_equal_cost(accuracy, samples)
    paired = np.take_along_axis(accuracy, samples - 1, axis=1)[:, 0] - (accuracy[:, 1] + accuracy[:, 2]) / 2
    naive = 2 * stats.sem(paired) * stats.t.ppf(0.975, QUESTIONS - 1)
    generator = np.random.default_rng(4)
    drawn = [generator.integers(0, QUESTIONS, QUESTIONS) for _ in range(2000)]
    spread = np.std([brute(accuracy[each], samples[each, 0]) for each in drawn])
    assert found["high"][0] - found["low"][0] == pytest.approx(2 * 1.96 * spread, rel=0.1)
    assert abs(found["high"][0] - found["low"][0] - naive) > 0.1 * naive


@pytest.mark.parametrize("count", [1, 7, MOST])
def test_a_fixed_n_neither_gains_nor_loses(count: int) -> None:
    accuracy, _ = pool(0)
    found = at_equal_cost(accuracy, np.full((QUESTIONS, 1), count))
    assert [found["difference"][0], found["low"][0], found["high"][0]] == pytest.approx([0, 0, 0])
    assert found["fixed"][0] == pytest.approx(accuracy[:, count - 1].mean())


def test_one_question_has_no_interval() -> None:
    found = at_equal_cost(np.array([[0.2, 0.4, 0.5]]), np.array([[1, 2, 3]]))
    assert np.isnan(found["low"]).all() and np.isnan(found["high"]).all()


def test_the_verdict_follows_from_the_interval() -> None:
    assert verdict(0.001, 0.02) == "gain"
    assert verdict(-0.02, -0.001) == "loss"
    assert verdict(-0.01, 0.01) == verdict(0.0, 0.0) == verdict(float("nan"), float("nan")) == "no gain"


def test_differences_are_those_of_the_paired_t_test() -> None:
    values = np.random.default_rng(5).random((40, 6)) + np.linspace(0, 0.5, 6)
    found = more_accurate(values)
    for i, j in np.ndindex(found.shape):
        test = stats.ttest_rel(values[:, i], values[:, j]) if i != j else None
        assert found[i, j] == (test is not None and test.pvalue < 0.05 and test.statistic > 0)
    assert found.any() and not more_accurate(values[:5]).any()


def test_noise_adds_no_point_to_the_frontier_and_small_steps_add_up() -> None:
    better = np.zeros((4, 4), dtype=bool)
    better[2, 0] = better[3, 0] = True  # point 1 is better than 0 by noise only, and 2 and 3 are no better than 1
    assert frontier([1, 2, 3, 4], [0.9, 0.91, 0.93, 0.931], better).tolist() == [True, False, True, False]


def test_points_with_the_same_cost_and_accuracy_are_on_the_frontier_together() -> None:
    none = np.zeros((3, 3), dtype=bool)
    assert frontier([1, 1, 1], [0.5, 0.5, 0.4], none).tolist() == [True, True, False]


def test_the_interval_of_the_best_of_several_contains_its_truth() -> None:
    """All 13 are the same. The best one's own interval leaves out 0 in a quarter of cases and more."""
    alone, at_once = [], []
    for seed in range(200):
        values = np.random.default_rng(seed).normal(size=(60, 13))
        best = int(values.mean(axis=0).argmax())
        mean, error = values[:, best].mean(), values[:, best].std(ddof=1) / np.sqrt(60)
        alone.append(mean > 2 * error)
        at_once.append(mean > half_widths_at_once(values)[best])
    assert np.mean(alone) > 0.15
    assert np.mean(at_once) < 0.05
    assert np.isnan(half_widths_at_once(np.ones((1, 2)))).all()
    assert half_widths_at_once(np.zeros((9, 2))).tolist() == [0, 0]
