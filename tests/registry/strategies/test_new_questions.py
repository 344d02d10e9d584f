"""Strategies answer new questions, one draw after another, as their results on a pool promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prmcal import Allowance, Pool, PoolStrategy
from prmcal.registry.plugins import strategies

_QUESTIONS, _SIZE = 6, 8
_TRIES = 30

_CASES: dict[str, dict[str, Any]] = {
    "pass@1": {},
    "majority vote": {},
    "best-of-n": {"samples": 5},
    "weighted best-of-n": {"samples": 4},
    "best-of-n + IAS": {},
    "first good enough": {"threshold": 0.7},
    "adaptive consistency": {"confidence": 0.8},
    "ESC": {"window": 3},
    "learned stopping": {"price": 0.01},
    "safe choice": {"loss": 0.9, "delta": 0.9},
}


def _pool(seed: int, questions: int = _QUESTIONS) -> Pool:
    random = np.random.default_rng(seed)
    chance = random.uniform(0.05, 0.9, questions)
    correct = random.random((questions, _SIZE)) < chance[:, None]
    answers = np.where(correct, 0, random.integers(1, 5, correct.shape))
    answers[random.random(correct.shape) < 0.1] = -1
    correct &= answers >= 0
    scores = np.where(correct, 1.5, -0.5) + random.normal(0, 1, correct.shape)
    return Pool(
        correct,
        answers,
        scores=scores,
        rewards=np.clip(chance - 0.04, 0.01, 0.99),
    )


def _so_far(pool: Pool, question: int, order: np.ndarray, drawn: int) -> Pool:
    """What is known of one question after some draws: N trajectories, of which the last ones are not there yet."""
    later = np.arange(_SIZE) >= drawn
    return Pool(
        np.zeros((1, _SIZE), bool),
        np.where(later, -1, pool.answers[question][order])[None],
        scores=np.where(later, np.nan, pool.scores[question][order])[None],
        rewards=pool.rewards[question : question + 1],
    )


def _answered(
    strategy: PoolStrategy, pool: Pool, question: int, order: np.ndarray, allowance: Allowance
) -> tuple[int, bool]:
    """Draw in one order until the strategy needs no more: samples, and whether the answer is right."""
    drawn = 0
    while True:
        needed = int(strategy.needed(_so_far(pool, question, order, drawn), np.array([drawn]), allowance)[0])
        if needed <= drawn:
            break
        drawn = needed
    choice = strategy.choose(_so_far(pool, question, order, drawn).drawn(slice(None), slice(0, drawn)), allowance)
    return drawn, bool(pool.correct[question][order[choice]])


@pytest.mark.parametrize("name", sorted(_CASES))
def test_new_questions_get_the_accuracy_and_the_samples_of_the_pool(name: str) -> None:
    strategy = strategies.create(name, **_CASES[name])
    assert isinstance(strategy, PoolStrategy)
    allowance = Allowance(_SIZE, 0.9 if strategy.targeted else None)
    strategy.tune(_pool(1, questions=60), allowance)
    pool = _pool(2)
    promised = strategy.answer(pool, allowance)
    random = np.random.default_rng(3)
    tries = [
        _answered(strategy, pool, question, random.permutation(_SIZE), allowance)
        for question in range(_QUESTIONS)
        for _ in range(_TRIES)
    ]
    samples, right = np.array(tries, dtype=np.float64).T
    # Five standard errors at most, and what the shared orders of the promise leave.
    margin = 5 * np.sqrt(0.25 / len(tries)) + 0.01
    assert abs(right.mean() - promised.accuracy.mean()) < margin
    assert abs(samples.mean() - promised.samples.mean()) < 5 * samples.std() / np.sqrt(len(tries)) + 0.01
