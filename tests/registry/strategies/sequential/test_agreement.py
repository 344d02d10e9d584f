"""Votes, and rules that stop when samples agree: equal to a slow program in every order."""

from __future__ import annotations

from collections import Counter
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad

from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.orders import Orders
from prmcal.registry.strategies.posterior_vote import AdaptiveConsistency, EarlyStoppingSelfConsistency
from prmcal.registry.strategies.votes import Votes, count_votes, majority_of_n, right_if_most_votes
from tests.arrays import Floats, Ints
from tests.registry.strategies.sequential.every_order import (
    Hand,
    compare,
    most_frequent_is_right,
    small_pool,
    world,
)


def counts(hand: Hand) -> list[int]:
    """The votes of all answers, the most first, with at least two entries."""
    return [n for _, n in Counter(one.answer for one in hand if one.answer >= 0).most_common()] + [0, 0]


def votes_in(answers: Ints) -> Votes:
    """The votes in rows of answers, of which answer 1 is right."""
    return count_votes(answers.ravel(), answers.ravel() == 1, in_rows(answers))


def in_rows(answers: Ints) -> Orders:
    """Orders that draw the answers of each row from left to right."""
    return Orders.these(np.arange(answers.size).reshape(answers.shape))


@given(arrays(np.int64, (3, 8), elements=st.integers(-1, 3)))
def test_votes_are_those_of_a_counter(answers: Ints) -> None:
    votes = votes_in(answers)
    for order, row in enumerate(answers):
        for draw in range(len(row)):
            hand = [int(each) for each in row[: draw + 1] if each >= 0]
            found = Counter(hand)
            first, second = (*sorted(found.values(), reverse=True), 0, 0)[:2]
            assert (votes.first[order, draw], votes.second[order, draw]) == (first, second)
            leaders = [answer for answer, count in found.items() if count == first]
            expected = (1 in leaders) / len(leaders) if leaders and np.any(answers == 1) else 0.0
            assert votes.right[order, draw] == pytest.approx(expected, abs=1e-12)
    right = right_if_most_votes(answers.ravel(), answers.ravel() == 1, in_rows(answers))
    assert np.array_equal(votes.right, right)


@given(
    arrays(np.int64, (2, 6), elements=st.integers(-1, 2)),
    arrays(np.float64, (2, 6), elements=st.sampled_from([0.0, 0.125, 0.25, 0.375, 1.0])),
)
def test_weighted_votes_are_sums_of_weights(answers: Ints, weights: Floats) -> None:
    right = right_if_most_votes(answers.ravel(), answers.ravel() == 1, in_rows(answers), weights.ravel())
    for order, row in enumerate(answers):
        for draw in range(len(row)):
            sums: dict[int, float] = {}
            for answer, weight in zip(row[: draw + 1], weights[order], strict=False):
                if answer >= 0:
                    sums[int(answer)] = sums.get(int(answer), 0.0) + weight
            most = max(sums.values(), default=0.0)
            leaders = [answer for answer, each in sums.items() if abs(each - most) < 1e-9]
            expected = (1 in leaders) / len(leaders) if leaders else 0.0
            assert right[order, draw] == pytest.approx(expected, abs=1e-12)


def test_adaptive_consistency_in_every_order() -> None:
    def value(hand: Hand, question: int) -> float:
        v1, v2 = counts(hand)[:2]
        density = quad(lambda x: x**v1 * (1 - x) ** v2, 0.5, 1)[0]
        return float(density / quad(lambda x: x**v1 * (1 - x) ** v2, 0, 1)[0])

    stops = compare(
        AdaptiveConsistency(), small_pool(5), (0.6, 0.85, 0.9, 0.95), value, most_frequent_is_right
    )
    assert len(np.unique(stops)) == 5


def test_early_stopping_in_every_order() -> None:
    for window in (1, 2, 3):

        def value(hand: Hand, question: int, window: int = window) -> float:
            last = [one.answer for one in hand[-window:]]
            return float(len(hand) % window == 0 and len(set(last)) == 1 and last[0] >= 0)

        pool = small_pool(6)
        every = EarlyStoppingSelfConsistency(window)
        rule = type("OneWindow", (EarlyStoppingSelfConsistency,), {})(window)
        rule.follow = lambda drawn, points, own=every: own.follow(drawn, (float(own.window),))
        stops = compare(rule, pool, (1.0,), value, most_frequent_is_right)
        assert len(np.unique(stops)) > 1


def test_a_rule_that_never_stops_is_a_majority_vote() -> None:
    pool = world(4, 12, 12)
    result = AdaptiveConsistency(confidence=1 - exp(-40)).answer(pool, Setting(12))
    assert result.samples.tolist() == [12.0] * 12
    assert result.accuracy == pytest.approx(majority_of_n(pool.answers, pool.correct, 12))


def test_curves_go_from_few_to_many_samples() -> None:
    pool = world(5, 12, 32)
    for rule, fewest in ((AdaptiveConsistency(), 1.0), (EarlyStoppingSelfConsistency(), 1.0)):
        budgets = [each.samples.mean() for each in rule.sweep(pool, Setting(32))]
        assert budgets[0] == fewest and budgets[-1] > 20


@pytest.mark.parametrize("samples", [1, 2])
def test_windows_that_are_larger_than_the_budget_draw_it(samples: int) -> None:
    result = EarlyStoppingSelfConsistency().answer(world(6, 6, 4), Setting(samples))
    assert result.samples.tolist() == [samples] * 6
