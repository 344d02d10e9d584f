"""The paired test: on known answers, where nothing differs, and where much is compared."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kstest, ttest_rel

from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean
from prmcal.db.statistics.paired import Replicated, holm, replicated_difference, replicated_differences
from tests.arrays import Floats
from tests.measured import paired_difference


def family(values: Floats, seed: int, replicates: int = 1000) -> Floats:
    """Unadjusted p values of all pairs of columns of `values`, of shape (questions, cells)."""
    questions = len(values)
    drawn = Bootstrap(replicates, seed).weights(questions) @ values / questions
    cells = [Replicated(mean, column, questions) for mean, column in zip(values.mean(axis=0), drawn.T, strict=True)]
    return np.array([replicated_difference(a, b).p_value for a, b in combinations(cells, 2)])


def test_of_means_it_is_the_paired_t_test() -> None:
    generator = np.random.default_rng(1)
    first = generator.random(60)
    second = first + generator.normal(0.15, 0.2, 60)
    expected = ttest_rel(first, second)
    low, high = expected.confidence_interval(0.95)
    found = paired_difference(QuestionMean(first), QuestionMean(second), Bootstrap(20_000, seed=2))
    half = (high - low) / 2
    assert found.difference == pytest.approx(np.mean(first - second))
    assert found.low == pytest.approx(low, abs=0.03 * half)
    assert found.high == pytest.approx(high, abs=0.03 * half)
    assert np.log(found.p_value) == pytest.approx(np.log(expected.pvalue), rel=0.05)
    assert found.p_value < 2 / 20_001, "beyond what a share of the resamples could say"


@pytest.mark.parametrize("shift", [0.02, 0.03, 0.035, 0.04, 0.05, 0.1])
def test_interval_and_p_value_agree(shift: float) -> None:
    generator = np.random.default_rng(3)
    first = generator.random(40)
    second = first + shift + generator.normal(0, 0.1, 40)
    found = paired_difference(QuestionMean(first), QuestionMean(second), Bootstrap(500))
    assert (found.p_value < 0.05) == (found.low > 0 or found.high < 0)


def draw_normal(generator: np.random.Generator, questions: int, cells: int) -> Floats:
    return generator.normal(size=(questions, 1)) + 0.5 * generator.normal(size=(questions, cells))


def draw_skewed(generator: np.random.Generator, questions: int, cells: int) -> Floats:
    return generator.beta(0.5, 3, size=(questions, 1)) * generator.uniform(0.5, 1.5, size=(questions, cells))


def draw_mostly_equal(generator: np.random.Generator, questions: int, cells: int) -> Floats:
    right = (generator.random((questions, 1)) < 0.5).astype(float)
    return np.where(generator.random((questions, cells)) < 0.1, generator.random((questions, cells)), right)


@pytest.mark.parametrize("draw", [draw_normal, draw_skewed, draw_mostly_equal])
def test_where_nothing_differs_seldom_anything_is_called_real(
    draw: Callable[[np.random.Generator, int, int], Floats],
) -> None:
    generator = np.random.default_rng(4)
    repetitions, cells = 300, 6
    raw = [family(draw(generator, 60, cells), seed) for seed in range(repetitions)]
    families = np.mean([holm(each).min() < 0.05 for each in raw])
    assert families < 0.05 + 3 * np.sqrt(0.05 * 0.95 / repetitions)
    # Pairs of one family share cells; one pair of each is independent of the others.
    assert kstest([each[0] for each in raw], "uniform").pvalue > 0.001


def test_a_clear_difference_is_found_in_a_family_of_200_pairs() -> None:
    generator = np.random.default_rng(5)
    found = []
    for seed in range(20):
        values = 0.5 + draw_normal(generator, 100, 21) * 0.1
        values[:, 0] += 0.05  # one standard deviation of a question's difference is 0.07
        adjusted = holm(family(values, seed, replicates=2000))
        assert len(adjusted) == 210
        found.append(np.mean(adjusted[:20] < 0.05))
        assert np.mean(adjusted[20:] < 0.05) < 0.05
    assert np.mean(found) > 0.95


def test_few_questions_that_point_one_way_are_no_evidence() -> None:
    found = paired_difference(QuestionMean(np.ones(5)), QuestionMean(np.zeros(5)), Bootstrap(100))
    assert (found.difference, found.low, found.high) == (1, 1, 1)
    assert found.p_value == 2**-4
    many = paired_difference(QuestionMean(np.ones(5000)), QuestionMean(np.zeros(5000)), Bootstrap(10))
    assert 0 < many.p_value < 1e-100


def test_rounding_is_no_difference() -> None:
    drawn = np.random.default_rng(6).random(100)
    moved = Replicated(0.5 + 1e-16, drawn + 1e-16, 50)
    assert replicated_difference(moved, Replicated(0.5, drawn, 50)).p_value == 1


def test_a_resample_without_a_value_gives_no_verdict() -> None:
    drawn = np.random.default_rng(7).random(100)
    broken = np.where(np.arange(100) == 3, np.nan, drawn + 1)
    found = replicated_difference(Replicated(1.5, broken, 50), Replicated(0.5, drawn, 50))
    assert found.difference == 1 and np.isnan([found.low, found.high, found.p_value]).all()


def test_opposite_errors_of_one_size_do_not_differ_in_their_distance_from_zero() -> None:
    generator = np.random.default_rng(8)
    noise = generator.normal(0, 0.02, 1000)
    over = Replicated(0.1, 0.1 + noise, 60)
    under = Replicated(-0.1, -0.1 + generator.normal(0, 0.02, 1000), 60)
    assert replicated_difference(over, under).p_value < 1e-4
    apart = replicated_difference(over.comparable("near zero"), under.comparable("near zero"))
    assert apart.difference == 0 and apart.p_value == 1


def test_many_pairs_at_once_have_the_values_of_each_pair_alone() -> None:
    generator = np.random.default_rng(5)
    drawn = generator.normal(size=(40, 1000))
    drawn[3, 7] = np.nan
    drawn[5] = drawn[4]
    cells = [Replicated(0.1 * place, each, 30) for place, each in enumerate(drawn)]
    first, second = np.triu_indices(len(cells), 1)
    found = replicated_differences(cells, first, second)
    for place, (a, b) in enumerate(zip(first, second, strict=True)):
        alone = replicated_difference(cells[a], cells[b])
        for name in ("difference", "low", "high", "p_value"):
            np.testing.assert_equal(getattr(found, name)[place], getattr(alone, name))
    assert np.isnan(found.p_value[(first == 3) | (second == 3)]).all()


def test_replicates_of_one_question_give_no_interval() -> None:
    """No run writes them, but a damaged file can have them."""
    drawn = np.random.default_rng(6).normal(size=(2, 100))
    found = replicated_difference(Replicated(0.3, drawn[0], 1), Replicated(0.1, drawn[1], 1))
    assert found.difference == pytest.approx(0.2)
    assert np.isnan([found.low, found.high, found.p_value]).all()
