"""Marginal gains: the allocation is the best of all, and its results are those of its samples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import PoolStrategy, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import best_of_n, pass_at_n
from prmcal.registry.strategies.scaling import allocated
from tests.arrays import Floats
from tests.registry.create import create_as
from tests.registry.strategies.sequential.every_order import world


@given(arrays(np.float64, 4, elements=st.floats(0.001, 0.999)), st.integers(4, 16))
def test_no_other_allocation_of_as_many_samples_solves_more(rewards: Floats, total: int) -> None:
    samples = allocated(rewards, np.array([total / 4]), 4)[0]
    assert samples.sum() == pytest.approx(total) and samples.min() >= 1 and samples.max() <= 4
    low, share = np.floor(samples), samples % 1

    def solved(samples: Floats) -> Floats:
        return np.asarray(1 - (1 - rewards) ** samples)

    own = ((1 - share) * solved(low) + share * solved(low + 1)).sum()
    every = [np.array(each) for each in product(range(1, 5), repeat=4) if sum(each) == total]
    assert own == pytest.approx(max(solved(each).sum() for each in every), abs=1e-12)


def test_equal_rewards_share_what_is_left() -> None:
    (samples,) = allocated(np.array([0.5, 0.5, 0.5, 0.1]), np.array([1.5]), 8)
    assert samples == pytest.approx([1 + 2 / 3] * 3 + [1.0])


def test_a_question_without_hope_comes_last() -> None:
    samples = allocated(np.array([0.0, 0.1]), np.array([4.0, 6.0]), 8)
    assert samples.tolist() == [[1.0, 7.0], [4.0, 8.0]]


def test_a_question_that_was_not_read_gets_the_mean() -> None:
    (samples,) = allocated(np.array([np.nan, 0.2, 0.9]), np.array([3.5]), 16)
    assert samples[0] == 3.5 and samples.mean() == pytest.approx(3.5)
    assert allocated(np.array([np.nan, np.nan]), np.array([3.5]), 2).tolist() == [[2.0, 2.0]]


def test_results_are_those_of_the_samples() -> None:
    pool = world(1, 15, 16)
    result = create_as(PoolStrategy, strategies, "marginal gains", mean_samples=4.6).answer(pool, Setting(16))
    (samples,) = allocated(pool.rewards, np.array([4.6]), 16)
    assert result.samples == pytest.approx(samples) and result.samples.mean() == pytest.approx(4.6)
    below, share = np.floor(samples).astype(int), samples % 1
    for question in range(15):
        own, b, x = slice(question, question + 1), int(below[question]), share[question]
        mixed = [(b, 1 - x)] + ([(b + 1, x)] if x else [])
        scores, correct = pool.scores[own], pool.correct[own]
        assert result.accuracy[question] == pytest.approx(
            sum(chance * best_of_n(scores, correct, [n])[0, 0] for n, chance in mixed)
        )
        assert result.pass_at_samples is not None
        assert result.pass_at_samples[question] == pytest.approx(
            sum(chance * pass_at_n(correct, [n])[0, 0] for n, chance in mixed)
        )


def test_known_chances_solve_more_than_equal_numbers() -> None:
    pool = world(2, 200, 16, skill=50.0)
    known = Pool(pool.correct, pool.answers, scores=pool.scores, rewards=pool.success)
    result = create_as(PoolStrategy, strategies, "marginal gains", mean_samples=4.0).answer(
        known, Setting(16)
    )
    assert result.accuracy.mean() > best_of_n(pool.scores, pool.correct, [4]).mean() + 0.01


def test_the_curve_has_the_means_it_says() -> None:
    pool = world(3, 20, 16)
    curve = create_as(PoolStrategy, strategies, "marginal gains").sweep(pool, Setting(16))
    assert [each.samples.mean() for each in curve] == pytest.approx(list(np.geomspace(1, 16, 24)))


def test_less_than_one_sample_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"'mean_samples' must be a float in \[1, inf\). Got 0.5"):
        strategies.create("marginal gains", mean_samples=0.5)
