"""One score from the scores of all steps: its identities, and the strategies that rank by it."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit, logit

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance, PoolStrategy
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.aggregation import READINGS, Aggregate, aggregated, read_steps
from prmcal.registry.strategies.best_of import best_of_n
from tests.arrays import Floats
from tests.registry.create import create_as

EVERY: tuple[Aggregate, ...] = get_args(Aggregate)
OTHERS = EVERY[1:]
RANKING = (
    "best-of-n",
    "best-of-n + IAS",
    "fixed n of equal cost",
    "oracle IAS",
    "weighted best-of-n",
)
LOG_ODDS = st.floats(-30, 30)


def one(steps: Floats, aggregate: Aggregate) -> float:
    """The score of a trajectory with these steps, after a bare question with the log-odds 5."""
    padded = np.concatenate([[5.0], steps, [np.nan, np.nan]])
    return float(aggregated(padded[None], steps[-1:], aggregate)[0])


@given(arrays(np.float64, st.integers(2, 6), elements=LOG_ODDS))
def test_scores_are_what_their_names_say(steps: Floats) -> None:
    rewards = expit(steps)
    assert one(steps, "last") == steps[-1]
    assert one(steps, "first") == steps[0]
    assert one(steps, "min") == steps.min()
    assert one(steps, "sum-logit") == pytest.approx(steps.sum(), abs=1e-9)
    assert expit(one(steps, "mean")) == pytest.approx(rewards.mean(), rel=1e-9)
    assert expit(one(steps, "product")) == pytest.approx(rewards.prod(), rel=1e-6)


@given(LOG_ODDS)
def test_one_step_is_the_score_itself(score: float) -> None:
    assert {one(np.array([score]), aggregate) for aggregate in EVERY} == {score}


def test_rewards_next_to_1_keep_their_order() -> None:
    better, worse = np.array([45.0, 60.0]), np.array([44.0, 60.0])
    assert (expit(better) == expit(worse)).all()
    for aggregate in OTHERS:
        assert one(better, aggregate) > one(worse, aggregate)


def test_too_long_trajectories_are_not_ranked_by_their_first_steps() -> None:
    steps = np.array([[[1.0, 2.0, np.nan], [1.0, 2.0, 3.0], [1.0, np.nan, np.nan], [np.nan] * 3]])
    scores = np.array([[np.nan, 3.0, 1.0, np.nan]])
    for aggregate in EVERY:
        found = aggregated(steps, scores, aggregate)[0]
        assert np.isnan(found[[0, 3]]).all() and np.isfinite(found[1])
        assert found[2] == 1.0  # Without a step, the whole trajectory is the bare question.


@pytest.mark.parametrize("aggregate", OTHERS)
def test_strategies_rank_by_it(aggregate: Aggregate) -> None:
    random = np.random.default_rng(0)
    steps = random.normal(size=(9, 8, 4))
    steps[:, ::3, 3] = np.nan
    scores = np.where(np.isnan(steps[..., 3]), steps[..., 2], steps[..., 3])
    answers = random.integers(0, 3, (9, 8))
    pool = Pool(answers == 0, answers, scores=scores, step_scores=steps, rewards=random.random(9))
    own = aggregated(steps, scores, aggregate)
    direct = Pool(answers == 0, answers, scores=own, rewards=pool.rewards)
    for name in ("best-of-n", "best-of-n + IAS", "weighted best-of-n"):
        allowance = Allowance(8, 0.9 if strategies.get(name).targeted else None)
        ranked, plain = (create_as(PoolStrategy, strategies, name, **given) for given in ({"aggregate": aggregate}, {}))
        assert ranked.answer(pool, allowance).accuracy == pytest.approx(plain.answer(direct, allowance).accuracy)
    assert (best_of_n(own, pool.correct, [4]) != best_of_n(scores, pool.correct, [4])).any()


@pytest.mark.parametrize("name", RANKING)
def test_what_is_read_follows_from_the_aggregate(name: str) -> None:
    plain, explicit = strategies.create(name), strategies.create(name, aggregate="last")
    assert explicit.identity() == plain.identity()
    assert plain.reads == type(plain).reads and "step_scores" not in plain.reads
    other = strategies.create(name, aggregate="min")
    assert other.identity()["arguments"]["aggregate"] == "min"
    assert "step_scores" in other.reads and "step_scores" not in type(other).reads


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match="'last', 'first', 'min', 'product', 'mean' or 'sum-logit'"):
        strategies.create("best-of-n", aggregate="max")


@given(st.lists(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=5), min_size=1, max_size=4))
def test_solutions_of_any_lengths_are_read_as_strategies_read_them(solutions: list[list[float]]) -> None:
    padded = np.full((len(solutions), 1 + max(map(len, solutions))), np.nan)
    for row, steps in zip(padded, solutions, strict=True):
        row[1 : 1 + len(steps)] = logit(steps)
    last = np.array([logit(steps[-1]) for steps in solutions])
    for reading in READINGS:
        read = read_steps(solutions, reading)
        np.testing.assert_allclose(read, expit(aggregated(padded, last, reading)), rtol=1e-6)
    with pytest.raises(ValueError, match="at least one step"):
        read_steps([[]])
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
        read_steps([[1.5]])
