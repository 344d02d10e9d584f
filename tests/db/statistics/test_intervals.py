"""The rules for 95% intervals: known numbers, properties, and how often they contain the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from prmcal.db.statistics.intervals import (
    Ends,
    IntervalRule,
    bounded_interval,
    cautious_within,
    error_interval,
    exact_interval,
    gain_interval,
    percentile_interval,
    skewed_interval,
)

shares = st.lists(st.floats(0, 1, width=32), min_size=2, max_size=40)
any_rule = pytest.mark.parametrize("rule", [bounded_interval, skewed_interval, error_interval])


def array(values: list[float]) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("right", "of", "low", "high"),
    [(100, 100, 0.9665, 1), (0, 100, 0, 0.0335), (30, 30, 0.8902, 1), (99, 100, 0.9477, 0.9985)],
)
def test_known_intervals_of_right_answers(right: int, of: int, low: float, high: float) -> None:
    found = bounded_interval(np.repeat([1.0, 0.0], [right, of - right]))
    assert [float(end) for end in found] == pytest.approx([low, high], abs=2e-4)


def test_the_bounded_interval_is_that_of_empirical_likelihood() -> None:
    """An independent computation, by the dual problem of each mean (Owen, 2001, section 2.9)."""
    values = np.random.default_rng(0).beta(3, 1, 25)
    points, weights = np.append(values, [0, 1]), np.append(np.ones(25), [0.5, 0.5])

    def statistic(mean: float) -> float:
        def dual(slope: float) -> float:
            return -2 * float(np.sum(weights * np.log1p(slope * (points - mean))))

        limits = (-1 / (1 - mean) + 1e-9, 1 / mean - 1e-9)
        return -float(minimize_scalar(dual, bounds=limits, method="bounded", options={"xatol": 1e-12}).fun)

    critical = 2.0638985616280205**2  # Student's t with 24 degrees of freedom
    centre = np.average(points, weights=weights)
    expected = [brentq(lambda mean: statistic(mean) - critical, *ends) for ends in ((1e-3, centre), (centre, 1 - 1e-3))]
    assert [float(end) for end in bounded_interval(values)] == pytest.approx(expected, abs=1e-6)


def test_the_skewed_interval_solves_halls_transformation() -> None:
    values = np.random.default_rng(1).exponential(size=40)
    longer = np.append(values, [values.min(), values.max()])
    skewness = np.mean((longer - longer.mean()) ** 3) / longer.std() ** 3
    found = []
    for end in skewed_interval(values):
        t = (values.mean() - float(end)) / longer.std(ddof=1)
        cubic = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / (6 * 40)
        found.append(cubic * np.sqrt(40))
    assert found == pytest.approx([2.0226909, -2.0226909], rel=1e-6)
    low, high = (float(end) for end in skewed_interval(values))
    assert high - values.mean() > 1.2 * (values.mean() - low)  # The long tail is above.


@given(shares)
def test_bounded_intervals_contain_the_mean_and_lie_in_the_range(values: list[float]) -> None:
    low, high = bounded_interval(array(values))
    assert 0 <= low <= np.mean(array(values)) <= high <= 1
    assert low < high


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_skewed_intervals_contain_the_mean(values: list[float]) -> None:
    low, high = skewed_interval(array(values))
    assert low <= array(values).mean() <= high


@any_rule
@given(values=shares, random=st.randoms(use_true_random=False))
def test_the_order_of_the_questions_does_not_matter(rule: IntervalRule, values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert np.array(rule(array(shuffled))) == pytest.approx(np.array(rule(array(values))), abs=1e-9)


@given(shares, st.floats(0.01, 100), st.floats(-10, 10))
def test_intervals_move_and_stretch_with_the_values(values: list[float], scale: float, shift: float) -> None:
    def moved(ends: Ends) -> list[float]:
        return [float(end) * scale + shift for end in ends]

    def flipped(ends: Ends) -> list[float]:
        return [-float(end) for end in reversed(ends)]

    own, other = array(values), array(values) * scale + shift
    near = 1e-7 * (scale + abs(shift))
    assert list(bounded_interval(other, shift, shift + scale)) == pytest.approx(moved(bounded_interval(own)), abs=near)
    assert list(skewed_interval(other)) == pytest.approx(moved(skewed_interval(own)), abs=near)
    assert list(bounded_interval(-own, -1, 0)) == pytest.approx(flipped(bounded_interval(own)), abs=1e-9)
    assert list(skewed_interval(-own)) == pytest.approx(flipped(skewed_interval(own)), abs=1e-9)


@pytest.mark.parametrize("rule", [bounded_interval, skewed_interval, gain_interval, exact_interval])
def test_several_means_at_once_have_the_intervals_of_each(rule: IntervalRule) -> None:
    values = np.random.default_rng(2).random((20, 5))
    values[:, 1], values[:, 2] = 1.0, 0.25
    together = np.array(rule(values))
    alone = np.array([rule(column) for column in values.T]).T
    np.testing.assert_allclose(together, alone, atol=1e-12)


def test_equal_values_are_certain_only_if_they_are_known() -> None:
    values = np.full(50, 0.3)
    assert [float(end) for end in exact_interval(values)] == pytest.approx([0.3, 0.3], abs=1e-15)
    assert [float(end) for end in skewed_interval(values)] == pytest.approx([0.3, 0.3], abs=1e-15)
    low, high = bounded_interval(values)
    assert 0.2 < low < 0.3 < high < 0.4


def test_questions_that_were_not_drawn_widen_the_interval_of_few_only() -> None:
    nothing_wrong = np.zeros(12)
    assert [float(end) for end in gain_interval(nothing_wrong)] == pytest.approx([-0.0614, 0.0614], abs=1e-4)
    random = np.random.default_rng(5)
    few, many = random.beta(1, 40, 20), random.beta(1, 4, 1000)
    assert float(error_interval(few)[1]) > float(skewed_interval(few)[1]) + 0.01
    np.testing.assert_allclose(error_interval(many), skewed_interval(many), atol=2e-3)
    # A mean beyond the usual range has an interval around itself.
    low, high = cautious_within(-0.5, 0.5)(0.9 + 0.01 * random.normal(size=500))
    assert 0.89 < low < 0.9 < high < 0.91


def test_linearised_values_may_lie_outside_of_the_range() -> None:
    low, high = bounded_interval(np.array([1.2, 0.9, 0.9, 0.95, 1.0]))
    assert 0 < low < 0.99 <= high == 1


@any_rule
def test_one_question_has_no_interval(rule: IntervalRule) -> None:
    assert np.isnan(rule(np.array([0.5]))).all()
    assert np.isnan(rule(np.array([[0.5, 0.2]]))).all()


def test_percentiles_are_moved_outwards_for_few_questions() -> None:
    replicates = np.random.default_rng(3).normal(size=20_000)
    assert percentile_interval(replicates, 10_000) == pytest.approx((-1.96, 1.96), abs=0.05)
    low, high = percentile_interval(replicates, 10)
    assert low < -2.2 and high > 2.2


def errors(random: np.random.Generator, questions: int, worlds: int) -> NDArray[np.float64]:
    """Corrected squared errors of rewards near p, with 8 follow-ups."""
    p = random.random((questions, worlds))
    reward = np.clip(p + random.normal(0, 0.2, p.shape), 0, 1)
    y = random.binomial(8, p) / 8
    return (reward - y) ** 2 - y * (1 - y) / 7


def hopeless(random: np.random.Generator, questions: int, worlds: int) -> NDArray[np.float64]:
    """Squared errors of which 95% are nearly 0, since these questions have no chance and low rewards."""
    none = random.random((questions, worlds)) < 0.95
    return np.where(none, random.beta(2, 400, none.shape), random.beta(1, 4, none.shape))


Draw = Callable[[np.random.Generator, int, int], NDArray[np.float64]]


def answers(accuracy: float) -> Draw:
    return lambda random, questions, worlds: random.binomial(1, accuracy, (questions, worlds)).astype(float)


WORLDS: dict[str, tuple[IntervalRule, float, Draw]] = {
    "right or wrong, .99": (bounded_interval, 0.99, answers(0.99)),
    "right or wrong, .8": (bounded_interval, 0.8, answers(0.8)),
    "shares, .9": (bounded_interval, 0.9, lambda r, n, w: r.beta(0.9, 0.1, (n, w))),
    "budget ratios, .1": (bounded_interval, 0.1, lambda r, n, w: r.beta(0.1, 0.9, (n, w))),
    "long tail": (skewed_interval, 1.0, lambda r, n, w: r.exponential(size=(n, w))),
    "corrected Brier": (skewed_interval, 0.03331, errors),
    "cautious": (error_interval, 0.95 * 2 / 402 + 0.05 / 5, hopeless),
}


@pytest.mark.parametrize("questions", [60, 200])
@pytest.mark.parametrize("name", WORLDS)
def test_intervals_contain_the_truth_as_often_as_they_say(name: str, questions: int) -> None:
    rule, truth, draw = WORLDS[name]
    values = draw(np.random.default_rng(questions), questions, 2000)
    low, high = rule(values)
    covered = np.mean((low <= truth) & (truth <= high))
    # The promise is .93 to .97; 2,000 worlds add 2 standard errors. Few wrong answers allow only some coverages.
    assert 0.92 < covered < (1 if name == "cautious" else 0.99 if "right" in name else 0.98)
