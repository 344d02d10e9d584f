"""Numbers of whole curves: areas, accuracies and samples at equal cost, against known answers and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.db.statistics.budgets import Curve
from prmcal.db.statistics.intervals import bounded_interval
from prmcal.harness.metrics.league import (
    CurveStatistic,
    SmoothStatistic,
    accuracy_at,
    accuracy_at_budget,
    area,
    area_gain,
    area_of,
    samples_to,
    samples_to_share,
    saving,
)

MOST = 16


def curve(costs: np.ndarray, accuracies: np.ndarray) -> Curve:
    return Curve(costs, accuracies, bounded_interval)


def world(seed: int = 0, questions: int = 40) -> tuple[Curve, Curve]:
    """A strategy that spends by question, and a fixed n, on questions of random difficulty."""
    random = np.random.default_rng(seed)
    chance = random.beta(1, 1, questions)
    counts = np.arange(1, MOST + 1)
    fixed = 1 - (1 - chance[:, None]) ** counts
    spent = np.clip(np.array([1.0, 2.0, 5.0, 9.0]) * (0.5 + (1 - chance[:, None])), 1, MOST)
    spent[:, 0] = 1
    own = 1 - (1 - chance[:, None]) ** spent
    return curve(spent, own), curve(np.tile(counts.astype(float), (questions, 1)), fixed)


def numbers() -> dict[str, CurveStatistic]:
    own, fixed = world()
    ids = np.arange(own.questions)
    return {
        "accuracy": accuracy_at_budget(ids, own, 4.0),
        "area": area(ids, own, MOST),
        "gain": area_gain(ids, own, fixed, MOST),
        "samples": samples_to_share(ids, own, fixed, MOST, 0.95),
        "saving": saving(ids, own, fixed, MOST, 0.95),
    }


points = st.lists(
    st.tuples(st.floats(1, MOST), st.floats(0, 1)), min_size=2, max_size=6, unique_by=lambda point: point[0]
).map(sorted)


@given(points)
def test_an_area_is_the_integral_over_the_logarithm_of_the_budget(found: list[tuple[float, float]]) -> None:
    costs = np.array([[1.0, *(cost for cost, _ in found)]])
    accuracies = np.array([[0.5, *(accuracy for _, accuracy in found)]])
    logs = np.linspace(0, np.log(MOST), 20_001)
    heights = np.interp(np.exp(logs), costs[0], accuracies[0])
    expected = np.trapezoid(heights, logs) / np.log(MOST)
    assert area_of(costs, accuracies, MOST)[0] == pytest.approx(expected, abs=2e-3)


@given(points, st.floats(1, MOST))
def test_accuracy_at_a_budget_mixes_the_two_settings_around_it(found: list[tuple[float, float]], budget: float) -> None:
    costs = np.array([[1.0, *(cost for cost, _ in found)]])
    accuracies = np.array([[0.5, *(accuracy for _, accuracy in found)]])
    order = np.argsort(costs[0], kind="stable")
    expected = np.interp(budget, costs[0][order], accuracies[0][order])
    if len(set(costs[0])) == len(costs[0]):
        assert accuracy_at(costs, accuracies, budget)[0] == pytest.approx(expected, abs=1e-9)


def test_samples_to_an_accuracy_are_the_first_that_reach_it() -> None:
    costs = np.array([[1.0, 3.0, 5.0, 9.0]])
    accuracies = np.array([[0.2, 0.6, 0.5, 0.9]])
    for wanted, expected in ((0.1, 1.0), (0.2, 1.0), (0.4, 2.0), (0.6, 3.0), (0.7, 7.0), (0.95, MOST)):
        assert samples_to(costs, accuracies, np.array([wanted]), MOST)[0] == pytest.approx(expected)


def test_a_strategy_that_draws_half_as_many_saves_half() -> None:
    _, fixed = world()
    half = curve(np.maximum(fixed.costs / 2, 1), fixed.accuracies)
    saved = saving(np.arange(fixed.questions), half, fixed, MOST, 0.95)
    needed = samples_to_share(np.arange(fixed.questions), fixed, fixed, MOST, 0.95)
    assert saved.value() == pytest.approx(0.5)
    assert half.accuracy[int(needed.value()) - 1] == pytest.approx(0.95 * fixed.accuracy[-1], rel=0.05)


@pytest.mark.parametrize("kind", ["accuracy", "area", "gain"])
def test_linearised_values_have_the_number_as_their_mean_and_its_spread(kind: str) -> None:
    statistic = numbers()[kind]
    assert isinstance(statistic, SmoothStatistic)
    values = statistic.linearised()
    assert values.mean() == pytest.approx(statistic.value(), abs=1e-12)
    moved = 1e-5 * np.eye(len(values))
    slopes = (statistic.values(1 + moved) - statistic.values(1 - moved)) / 2e-5
    np.testing.assert_allclose(len(values) * slopes, values - statistic.value(), atol=1e-6)
    weights = Bootstrap(replicates=2000, seed=1).weights(len(values))
    replicates = statistic.values(weights)
    first_order = weights @ values / len(values)
    assert first_order.std() == pytest.approx(replicates.std(), rel=0.1)
    assert np.corrcoef(first_order, replicates)[0, 1] > 0.97


@pytest.mark.parametrize("kind", ["accuracy", "area", "gain", "samples", "saving"])
def test_an_interval_is_the_same_whether_or_not_the_number_is_compared(kind: str) -> None:
    metric = numbers()[kind]
    bootstrap = Bootstrap(replicates=100, seed=0)
    compared, alone = estimate(metric, bootstrap), estimate(metric, bootstrap, compared=False)
    assert (compared.value, compared.low, compared.high) == (alone.value, alone.low, alone.high)
    assert len(compared.replicates) == 100


def test_intervals_of_a_gain_cover_the_truth() -> None:
    """The truth is the gain over very many questions. 300 samples of 40 questions, each with its interval."""
    big_own, big_fixed = world(seed=99, questions=20_000)
    truth = area_gain(np.arange(20_000), big_own, big_fixed, MOST).of(
        [(each.cost[None], each.accuracy[None]) for each in (big_own, big_fixed)]
    )[0]
    covered = 0
    for seed in range(300):
        own, fixed = world(seed=seed)
        found = estimate(area_gain(np.arange(40), own, fixed, MOST), Bootstrap(replicates=100, seed=0))
        covered += bool(found.low <= truth <= found.high)
    assert covered >= 0.9 * 300
