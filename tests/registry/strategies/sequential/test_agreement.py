"""Rules that stop when samples agree: equal to a slow program in every order, and certificates that keep their risk."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import comb, exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Setting
from prmcal.registry.strategies.orders import Orders
from prmcal.registry.strategies.posterior_vote import (
    AdaptiveConsistency,
    CertifiedSelfConsistency,
    EarlyStoppingSelfConsistency,
    log_evidence,
)
from prmcal.registry.strategies.sequential import Drawn
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
        seen: list[int] = []
        for draw in range(len(row)):
            hand = [int(each) for each in row[: draw + 1] if each >= 0]
            seen += [each for each in hand if each not in seen]
            found = Counter(hand)
            first, second = (*sorted(found.values(), reverse=True), 0, 0)[:2]
            assert (votes.first[order, draw], votes.second[order, draw]) == (first, second)
            leaders = [answer for answer, count in found.items() if count == first]
            places = [seen.index(answer) + 1 for answer in leaders] or [0]
            assert votes.discovered[order, draw] in places
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


def test_certificates_in_every_order() -> None:
    grid = np.sin(np.pi / 4 * (1 + (np.arange(41) + 0.5) / 41)) ** 2

    def value(hand: Hand, question: int) -> float:
        found = Counter(one.answer for one in hand if one.answer >= 0)
        if not found:
            return -np.inf
        reached: dict[int, int] = {}
        for t, one in enumerate(hand, 1):
            if one.answer >= 0 and sum(each.answer == one.answer for each in hand[:t]) == max(found.values()):
                reached.setdefault(one.answer, t)
        leader = min(reached, key=lambda answer: reached[answer])
        place = list(found).index(leader) + 1
        s, f = found[leader] - 1, max((n for a, n in found.items() if a != leader), default=0)
        return log(float(np.mean((2 * grid) ** s * (2 * (1 - grid)) ** f))) - log(place * (place + 1))

    points = (-1.5, -0.6, 0.1, 0.9)
    stops = compare(CertifiedSelfConsistency(), small_pool(7), points, value, most_frequent_is_right)
    assert len(np.unique(stops)) >= 4


@pytest.mark.parametrize("size", [1, 7, 40])
def test_evidence_has_the_mean_1_between_equals_and_less_against_a_better_answer(size: int) -> None:
    evidence = np.exp(log_evidence(size))
    for chance in (0.5, 0.45, 0.2):
        mean = sum(
            comb(size, s) * chance**s * (1 - chance) ** (size - s) * evidence[s, size - s]
            for s in range(size + 1)
        )
        assert mean == pytest.approx(1.0, rel=1e-9) if chance == 0.5 else mean < 1.0


def drawn_from(chances: list[float], runs: int, draws: int, seed: int) -> Drawn:
    """Independent draws of answers, of which answer 0 is the most frequent one and counts as right."""
    answers = np.random.default_rng(seed).choice(len(chances), size=(runs, draws), p=chances)
    pool = Pool(answers.reshape(1, -1) == 0, answers.reshape(1, -1))
    return Drawn(pool, 0, Orders.these(np.arange(answers.size).reshape(answers.shape)), ())


@pytest.mark.parametrize("chances", [[0.34, 0.33, 0.33], [0.502, 0.498], [0.12] + [0.11] * 8])
def test_wrong_certificates_are_as_rare_as_promised(chances: list[float]) -> None:
    rule = CertifiedSelfConsistency(uncertified="abstain")
    drawn = drawn_from(chances, runs=2000, draws=300, seed=1)
    for delta in (0.5, 0.2):
        outcome = rule.follow(drawn, (-log(delta),))
        assert outcome.silent is not None
        certified = ~outcome.silent[0]
        right = outcome.right[np.arange(2000), outcome.stops[0] - 1] > 0
        assert np.mean(certified & ~right) <= delta
        assert np.all(outcome.stops[0][~certified] == 300)


def test_a_clear_majority_is_certified() -> None:
    rule = CertifiedSelfConsistency(uncertified="abstain")
    outcome = rule.follow(drawn_from([0.7, 0.2, 0.1], runs=500, draws=100, seed=2), (-log(0.1),))
    assert outcome.silent is not None and outcome.silent.mean() < 0.02
    assert outcome.stops.mean() < 40


def test_abstaining_is_told_and_is_not_right() -> None:
    pool = world(3, 10, 8)
    silent = CertifiedSelfConsistency(delta=0.01, uncertified="abstain").answer(pool, Setting(8))
    speaking = CertifiedSelfConsistency(delta=0.01).answer(pool, Setting(8))
    assert silent.abstained is not None and speaking.abstained is None
    assert (silent.accuracy + silent.abstained <= 1 + 1e-12).all()
    assert silent.samples.tolist() == speaking.samples.tolist()
    assert (speaking.accuracy >= silent.accuracy).all() and silent.abstained.max() == 1.0


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
    certified = [each.samples.mean() for each in CertifiedSelfConsistency().sweep(pool, Setting(32))]
    assert all(before <= after for before, after in pairwise(certified)) and certified[-1] - certified[0] > 5
