"""Learned stopping: equal to a slow program in every order, and it stops where more samples do not help."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement
from math import exp, log

import numpy as np
import pytest

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance
from prmcal.registry.strategies.best_of import best_of_each
from prmcal.registry.strategies.learned import LearnedStopping
from tests.arrays import Floats
from tests.registry.strategies.sequential.every_order import (
    Hand,
    best_is_right,
    compare,
    most_frequent_is_right,
    small_pool,
    some_orders,
    world,
)


def tuned(known: Pool, samples: int, price: float = 0.005) -> LearnedStopping:
    rule = LearnedStopping(price=price)
    rule.tune(known, Allowance(samples))
    return rule


def chances(rule: LearnedStopping, hand: Hand) -> list[float]:
    slope, offset = rule.evidence_.slope, rule.evidence_.offset
    return [0.0 if np.isnan(one.score) else 1 / (1 + exp(-slope * one.score - offset)) for one in hand]


def terms(rule: LearnedStopping, hand: Hand) -> Floats:
    """The state in words of the docstring, with all products."""
    chance, t = chances(rule, hand), len(hand)
    best = max(chance)
    odds = log(max(best, 1e-9) / (1 - max(best, 1e-9)))
    votes = Counter(one.answer for one in hand if one.answer >= 0)
    first, second = ([n for _, n in votes.most_common(2)] + [0, 0])[:2]
    named = [one.answer for one, each in zip(hand, chance, strict=True) if each == best][-1]
    of_best = votes[named] if named >= 0 else 0
    state = [
        1.0,
        min(max(odds, -4), 4) / 4,
        sum(chance) / t,
        first / t,
        (first - second) / t,
        of_best / t,
    ]
    return np.array([x * y for x, y in combinations_with_replacement(state, 2)])


def weighted_is_right(rule: LearnedStopping, hand: Hand) -> float:
    sums: Counter[int] = Counter()
    for one, chance in zip(hand, chances(rule, hand), strict=True):
        if one.answer >= 0:
            sums[one.answer] += round(chance * 2**40)
    first = [answer for answer, each in sums.items() if each == max(sums.values())]
    return (0 in first) / len(first) if first else 0.0


def test_learned_stopping_in_every_order() -> None:
    for size, orders in ((5, None), (12, some_orders(12, 40))):
        rule = tuned(world(5, 60, size, skill=1.0, chances=(0.5, 1.0)), size, price=0.02)
        assert rule.prices_[-1] == -0.02

        def right(hand: Hand, rule: LearnedStopping = rule) -> float:
            better = rule.picks_[len(hand) - 1] @ terms(rule, hand)
            pick = int(np.argmax([0.0, *better]))
            return (best_is_right(hand), most_frequent_is_right(hand), weighted_is_right(rule, hand))[pick]

        stops = []
        for place in (3, 12, 16, 23, 24):
            point = rule.prices_[place]

            def value(hand: Hand, question: int, rule: LearnedStopping = rule, place: int = place) -> float:
                return 1.0 if rule.more_[len(hand) - 1, place] @ terms(rule, hand) <= 0 else -1.0

            stops.append(compare(rule, small_pool(4, size=size), (point,), value, right, orders))
        assert len(np.unique(stops)) >= 4


def test_what_one_more_draw_is_worth_is_that_of_least_squares() -> None:
    """With two draws nothing is decided later, so that the value has no folds."""
    known, price = world(6, 40, 2), 0.05
    known = Pool(known.correct, None, scores=known.scores)
    rule = tuned(known, 2, price)
    rows, gains = [], []
    for order in ([0, 1], [1, 0]):
        for scores, correct in zip(known.scores[:, order], known.correct[:, order], strict=True):
            chance = float(rule.evidence_.chance(scores)[0])
            state = [1.0, min(max(log(chance / (1 - chance)), -4), 4) / 4, chance]
            rows.append([x * y for x, y in combinations_with_replacement(state, 2)])
            gains.append(float(correct[int(np.argmax(scores))]) - price - float(correct[0]))
    # Each order counts half, and the ridge is two questions.
    rows += [list(each) for each in 2 * np.eye(len(rows[0]))]
    wanted = np.linalg.lstsq(np.array(rows), np.array([*gains, *[0.0] * len(rows[0])]), rcond=None)[0]
    np.testing.assert_allclose(rule.more_[0, -1], wanted, atol=1e-9)


def misled(seed: int, questions: int = 200, size: int = 16) -> Pool:
    """A few wrong trajectories have the highest scores. The best of few is better than the best of many."""
    random = np.random.default_rng(seed)
    correct = random.random((questions, size)) < random.beta(2, 2, questions)[:, None]
    scores = random.normal(0, 1, correct.shape) + 3 * correct
    scores[~correct & (random.random(correct.shape) < 0.12)] += 9
    return Pool(correct, np.where(correct, 0, random.integers(1, 3, correct.shape)), scores=scores)


@pytest.mark.parametrize("answers", [True, False])
def test_it_stops_where_more_samples_make_the_answer_worse(answers: bool) -> None:
    known, new = misled(1), misled(2, 300)
    if not answers:
        known, new = (Pool(each.correct, None, scores=each.scores) for each in (known, new))
    fixed = best_of_each(new.scores, new.correct, 16).mean(axis=0)
    assert fixed[-1] < fixed.max() - 0.05
    free = tuned(known, 16).sweep(new, Allowance(16))[-1]
    assert free.samples.mean() < 14
    assert free.accuracy.mean() > fixed.max() - 0.01


def test_scores_that_mislead_and_wrong_answers_that_agree_leave_one_sample() -> None:
    random = np.random.default_rng(0)
    correct = random.random((200, 8)) < random.beta(1, 2, 200)[:, None]
    pool = Pool(correct, np.where(correct, 0, 1), scores=random.normal(0, 1, correct.shape) - 2 * correct)
    swept = tuned(pool, 8).sweep(pool, Allowance(8))
    assert all(each.accuracy.mean() >= correct.mean() - 0.005 for each in swept)


def test_good_scores_are_worth_more_than_a_fixed_number_of_samples() -> None:
    known, new = world(8, 100, 16, skill=2.5), world(9, 150, 16, skill=2.5)
    fixed = best_of_each(new.scores, new.correct, 16).mean(axis=0)
    swept = tuned(known, 16).sweep(new, Allowance(16))
    for each in swept:
        cost = each.samples.mean()
        assert each.accuracy.mean() > np.interp(cost, np.arange(1, 17), fixed) - 0.01
    assert max(each.accuracy.mean() for each in swept) > fixed[-1] - 0.01


@pytest.mark.parametrize("questions", [1, 2, 7])
def test_few_questions_and_more_trajectories_than_they_have(questions: int) -> None:
    rule = tuned(world(10, questions, 4), 64)
    for each in rule.sweep(world(11, 5, 64), Allowance(64)):
        assert each.samples.max() <= 4
