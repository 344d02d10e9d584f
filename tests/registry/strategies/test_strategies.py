"""The built-in strategies: their contract, known cases, and brute force over every draw from a small pool."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from prmcal.errors import FaultyPluginError, InvalidArgumentsError
from prmcal.registry.conformance import parametrize_with_checks
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.results import check_answered
from prmcal.registry.contracts.strategy import Allowance, Answered, PoolStrategy
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import best_of_n
from prmcal.registry.strategies.votes import majority_of_n
from tests.registry.create import create_as

NAMES = list(strategies.names())


def answer(name: str, pool: Pool, most: int, target: float | None = None, **arguments: Any) -> Answered:
    return create_as(PoolStrategy, strategies, name, **arguments).answer(pool, Allowance(most, target))


def random_pool(seed: int, questions: int = 20, size: int = 16) -> Pool:
    random = np.random.default_rng(seed)
    answers = random.integers(-1, 4, (questions, size))
    return Pool(
        correct=answers == random.integers(0, 4, (questions, 1)),
        answers=answers,
        scores=random.normal(size=answers.shape),
        rewards=random.random(questions),
        success=random.random(questions),
    )


@parametrize_with_checks([strategies.create(name) for name in NAMES])
def test_the_built_in_strategies_conform(plugin: PoolStrategy, check: Any) -> None:
    check(plugin)


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=7), st.integers(0, 3), st.data())
def test_a_majority_of_a_few_is_that_of_every_draw(votes: list[int], right: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(votes)))
    answers = np.array([votes])
    outcomes = []
    for drawn in combinations(votes, n):
        voting = [vote for vote in drawn if vote >= 0]
        most = max((voting.count(vote) for vote in voting), default=0)
        first = {vote for vote in voting if voting.count(vote) == most}
        outcomes.append((right in first) / len(first) if first else 0.0)
    expected = np.mean(outcomes)
    assert majority_of_n(answers, answers == right, n)[0] == pytest.approx(expected, abs=1e-12)


def test_a_large_pool_overflows_nothing() -> None:
    answers = np.array([[0] * 600 + [1] * 500])
    share = majority_of_n(answers, answers == 0, 31)[0]
    assert 0.6 < share < 0.95


def test_equal_weights_share_the_answer_and_make_it_a_majority_vote() -> None:
    answers = np.array([[0, 1, 2, -1], [0, 0, 1, 1]])
    pool = Pool(answers == 0, answers, scores=np.zeros(answers.shape))
    for name in ("weighted best-of-n", "majority vote"):
        assert answer(name, pool, 4).accuracy == pytest.approx([1 / 3, 1 / 2])


def test_drawn_votes_are_within_their_stated_error() -> None:
    pool = random_pool(1, questions=60)
    flat = Pool(pool.correct, pool.answers, scores=np.zeros(pool.correct.shape))
    drawn = answer("weighted best-of-n", flat, 16, samples=5)
    exact = majority_of_n(pool.answers, pool.correct, 5)
    assert drawn.order_error is not None
    errors = (drawn.accuracy - exact) / np.maximum(drawn.order_error, 1e-9)
    assert np.abs(drawn.accuracy - exact).max() < 0.05
    # The error is itself estimated, from 64 blocks.
    assert 0.8 < np.sqrt(np.mean(errors**2)) < 1.2


def test_weighted_votes_in_every_draw_from_a_small_pool() -> None:
    pool = random_pool(9, questions=12, size=5)
    assert pool.scores is not None
    weights = expit(pool.scores)
    for n in (1, 2, 3, 5):
        found = answer("weighted best-of-n", pool, 5, samples=n)
        for question in range(12):
            outcomes = []
            for drawn in combinations(range(5), n):
                sums: dict[int, float] = {}
                for i in drawn:
                    name = int(pool.answers[question, i])
                    sums[name] = sums.get(name, 0.0) + weights[question, i]
                sums.pop(-1, None)
                best = max(sums, key=lambda name: sums[name], default=-1)
                right = pool.correct[question, pool.answers[question] == best]
                outcomes.append(float(best >= 0 and right.all()))
            error = 0.0 if found.order_error is None else 5 * found.order_error[question]
            assert found.accuracy[question] == pytest.approx(np.mean(outcomes), abs=error + 1e-12)
        if n in (1, 5):
            assert found.order_error is None


def test_a_fixed_budget_has_a_curve_over_numbers_of_samples() -> None:
    pool = random_pool(10, size=8)
    for name in ("pass@N", "best-of-n", "majority vote", "weighted best-of-n"):
        curve = create_as(PoolStrategy, strategies, name).sweep(pool, Allowance(8))
        assert [each.samples[0] for each in curve] == list(range(1, 9))
        for n in (1, 5, 8):
            one = answer(name, pool, 8, samples=n)
            error = curve[n - 1].order_error
            within = 1e-12 + (0.0 if error is None else 5 * error)
            assert (np.abs(curve[n - 1].accuracy - one.accuracy) <= within).all() and curve[n - 1].fixed


def test_reference_points_cost_what_ias_does() -> None:
    pool = random_pool(2)
    ias = answer("best-of-n + IAS", pool, 16, 0.9)
    assert len(np.unique(ias.samples)) > 3
    reference = answer("fixed n of equal cost", pool, 16, 0.9)
    assert reference.samples == pytest.approx(np.full(pool.questions, ias.samples.mean()))


def test_a_mean_that_is_no_whole_number_is_mixed_of_its_neighbours() -> None:
    pool = random_pool(4, questions=2)
    # N_IAS(.9, .99) = 2 and N_IAS(.78, .99) = 3.04, rounded up to 4, so the mean is 3. N_IAS(.7, .99) = 3.8.
    thirds = Pool(pool.correct[[0, 0, 0]], pool.answers[[0, 0, 0]], pool.scores[[0, 0, 0]], np.array([0.9, 0.9, 0.78]))
    samples = answer("best-of-n + IAS", thirds, 16, 0.99).samples
    assert samples.tolist() == [2.0, 2.0, 4.0]
    two, three = best_of_n(thirds.scores, thirds.correct, [2, 3])[0]
    mixed = answer("fixed n of equal cost", thirds, 16, 0.99).accuracy
    assert mixed == pytest.approx(np.full(3, two / 3 + three * 2 / 3))


def test_knowing_the_success_rate_spends_it_where_it_helps() -> None:
    random = np.random.default_rng(5)
    chance = random.beta(0.7, 0.7, 300)
    correct = random.random((300, 64)) < chance[:, None]
    pool = Pool(correct, np.where(correct, 0, 1), scores=correct.astype(float), rewards=chance, success=chance)
    names = ("oracle IAS", "fixed n of equal cost")
    oracle, equal = (answer(name, pool, 64, 0.9).accuracy.mean() for name in names)
    assert oracle > equal + 0.01


def test_a_budget_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"greater than or equal to 1\. Got 0"):
        strategies.create("best-of-n", samples=0)
    with pytest.raises(ValueError, match=r"the grid's fixed budget is 8. Raise scaling.samples"):
        answer("best-of-n", random_pool(0), 8, samples=9)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"fixed": True}, "every question must get the same 'samples'"),
        ({"estimated_from": np.full(20, 9.0)}, "the mean of 'estimated_from' must be the mean of 'samples'"),
    ],
)
def test_a_budget_that_is_not_what_it_says_is_told(budget: dict[str, Any], message: str) -> None:
    samples, given = np.linspace(1.0, 20.0, 20), (20, Allowance(20))
    with pytest.raises(FaultyPluginError, match=message):
        check_answered(Answered(np.ones(20), samples, **budget), *given)
    check_answered(Answered(np.ones(20), samples, estimated_from=samples[::-1]), *given)


def test_strategies_say_how_their_budget_is_known() -> None:
    pool = random_pool(5)
    for name in ("pass@1", "pass@N", "best-of-n", "majority vote", "weighted best-of-n"):
        assert answer(name, pool, 16).fixed
    ias = answer("best-of-n + IAS", pool, 16, 0.9)
    assert not ias.fixed and ias.estimated_from is None
    assert answer("fixed n of equal cost", pool, 16, 0.9).estimated_from == pytest.approx(ias.samples)
