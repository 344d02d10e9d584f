"""A sequential rule against another program of it: one order at a time, one draw at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.strategies.sequential import Drawn, SequentialRule
from tests.arrays import Ints


@dataclass(frozen=True)
class One:
    """One trajectory: its answer (-1 for none), its score (NaN if it is too long), and whether it is right."""

    answer: int
    score: float
    correct: bool


Hand = Sequence[One]


def compare(
    rule: SequentialRule,
    pool: Pool,
    points: tuple[float, ...],
    value: Callable[[Hand, int], float | Fraction],
    right: Callable[[Hand], float],
    orders: Ints | None = None,
) -> Ints:
    """Check that a rule stops each question in every order where `value` first reaches the point, and is as right.

    `value` gets the trajectories in hand and the number of the question. Returns the numbers of draws.
    """
    every = np.array(list(permutations(range(pool.size)))) if orders is None else orders
    found = []
    for question in range(pool.questions):
        drawn = Drawn(pool, question, every, rule.reads)
        outcome = rule.follow(drawn, points)
        share = np.broadcast_to(outcome.right, (len(points), *every.shape))
        for number, order in enumerate(every):
            line = [
                One(
                    int(pool.answers[question, i]),
                    float(pool.scores[question, i]) if "scores" in rule.reads else 0.0,
                    bool(pool.correct[question, i]),
                )
                for i in order
            ]
            values = [value(line[:t], question) for t in range(1, len(line) + 1)]
            for place, point in enumerate(points):
                stop = next((t for t, each in enumerate(values, 1) if each >= point), len(line))
                assert outcome.stops[place, number] == stop, (question, order, point, values)
                assert share[place, number, stop - 1] == pytest.approx(right(line[:stop]), abs=1e-12)
        found.append(outcome.stops)
    return np.array(found)


def some_orders(size: int, number: int) -> Ints:
    """Return random orders of a large pool."""
    return np.random.default_rng(size).permuted(np.tile(np.arange(size), (number, 1)), axis=1)


def best_is_right(hand: Hand) -> float:
    """The chance that the best-scored trajectory in hand is right."""
    read = [one for one in hand if not np.isnan(one.score)]
    best = [one for one in read if one.score == max(each.score for each in read)] or list(hand)
    return float(np.mean([one.correct for one in best]))


def most_frequent_is_right(hand: Hand) -> float:
    """The chance that the most frequent answer in hand is right."""
    voting = [one for one in hand if one.answer >= 0]
    counts = {one.answer: sum(each.answer == one.answer for each in voting) for one in voting}
    first = [answer for answer, count in counts.items() if count == max(counts.values())]
    grades = [np.mean([one.correct for one in voting if one.answer == answer]) for answer in first]
    return float(np.mean(grades)) if grades else 0.0


def small_pool(seed: int, questions: int = 6, size: int = 5) -> Pool:
    """Questions with few trajectories, equal scores, answers that are missing, and inputs that are too long."""
    random = np.random.default_rng(seed)
    answers = random.integers(-1, 3, (questions, size))
    scores = np.round(random.normal(np.where(answers == 0, 1.0, -1.0), 1.5), 1)
    scores[random.random(scores.shape) < 0.15] = np.nan
    scores[0] = np.nan
    rewards = random.random(questions)
    rewards[1] = np.nan
    return Pool(
        correct=answers == 0,
        answers=answers,
        scores=scores,
        rewards=rewards,
    )


def world(seed: int, questions: int, size: int, skill: float = 2.0, chances: tuple[float, float] = (0.6, 0.9)) -> Pool:
    """Questions with Beta-distributed success probabilities, which the rewards of the bare question tell roughly."""
    random = np.random.default_rng(seed)
    chance = random.beta(*chances, questions)
    correct = random.random((questions, size)) < chance[:, None]
    answers = np.where(correct, 0, random.integers(1, 30, correct.shape))
    scores = random.normal(np.where(correct, skill, -skill) / 2, 1.0)
    return Pool(
        correct,
        answers,
        scores=scores,
        rewards=chance,
        success=chance,
    )
