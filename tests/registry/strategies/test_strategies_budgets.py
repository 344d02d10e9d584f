from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance, Answered, PoolStrategy
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import best_of_n, pass_at_n
from prmcal.registry.strategies.scaling import adaptive_samples, samples_needed
from tests.arrays import Bools, Floats
from tests.registry.create import create_as

SHARE = st.floats(1e-3, 1 - 1e-3)


def adaptive(rewards: Floats, scores: Floats, correct: Bools, target: float, maximum: int) -> Answered:
    pool = Pool(correct, np.where(correct, 0, 1), scores=scores, rewards=np.asarray(rewards, dtype=float))
    return create_as(PoolStrategy, strategies, "best-of-n + IAS").answer(pool, Allowance(maximum, target))


def test_samples_needed_at_known_points() -> None:
    np.testing.assert_allclose(samples_needed([0.5, 0.9], 0.99), [np.log(0.01) / np.log(0.5), 2.0])
    # The probabilities 0 and 1 are clipped, so the budget is neither infinite nor 0.
    np.testing.assert_allclose(samples_needed([0.0, 1.0], 0.99), [46049.4, 0.5], rtol=1e-5)
    assert samples_needed(0.5, 1 - 1e-12) == pytest.approx(39.86, abs=0.01)


@pytest.mark.parametrize(
    ("p", "target", "expected"),
    [
        (0.9, 0.99, 2),
        (0.99, 0.99, 1),
        (0.5, 0.75, 2),
        (0.006, 0.011964, 2),
        (0.5, 0.99, 7),
        (0.0, 0.99, 64),
        (1.0, 0.99, 1),
    ],
)
def test_rounding_up_takes_no_extra_sample(p: float, target: float, expected: int) -> None:
    assert adaptive_samples([p], target, 64).tolist() == [expected]


@given(SHARE, SHARE)
def test_enough_samples_and_not_one_too_many(p: float, target: float) -> None:
    samples = int(adaptive_samples(p, target, 10**6))
    assert 1 - (1 - p) ** samples >= target - 1e-9
    assert samples == 1 or 1 - (1 - p) ** (samples - 1) < target + 1e-9


@given(st.floats(0, 1), st.floats(0, 1), SHARE, st.integers(1, 64))
def test_easier_questions_take_no_more(p: float, other: float, target: float, maximum: int) -> None:
    harder, easier = adaptive_samples([min(p, other), max(p, other)], target, maximum)
    assert 1 <= easier <= harder <= maximum


def test_an_unread_question_takes_the_whole_budget() -> None:
    assert adaptive_samples([np.nan, 0.9], 0.99, 16).tolist() == [16, 2]


def test_each_question_gets_its_own_budget() -> None:
    generator = np.random.default_rng(4)
    scores, correct = generator.normal(size=(50, 64)), generator.random((50, 64)) < 0.3
    calibrated = generator.random(50)
    result = adaptive(calibrated, scores, correct, 0.99, 48)
    assert result.pass_at_samples is not None
    for question, n in enumerate(adaptive_samples(calibrated, 0.99, 48)):
        assert result.samples[question] == n
        own = slice(question, question + 1)
        assert result.accuracy[question] == best_of_n(scores[own], correct[own], [n])[0, 0]
        assert result.pass_at_samples[question] == pass_at_n(correct[own], [n])[0, 0]
    assert result.samples.max() <= 48
    assert len(set(result.samples)) > 5
