"""Votes, and rules that stop by scores or where answers agree: equal to a slow program in every order."""

from __future__ import annotations

from collections import Counter
from math import comb, exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import best_of_n
from prmcal.registry.strategies.learned import LearnedStopping
from prmcal.registry.strategies.orders import Votes, count_votes
from prmcal.registry.strategies.sequential import SequentialRule
from prmcal.registry.strategies.stopping import (
    AdaptiveConsistency,
    EarlyStoppingSelfConsistency,
    FirstGoodEnough,
    ScoreEvidence,
)
from tests.arrays import Floats, Ints
from tests.registry.create import create_as
from tests.registry.strategies.sequential.every_order import (
    Hand,
    best_is_right,
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


def in_rows(answers: Ints) -> Ints:
    """Orders that draw the answers of each row from left to right."""
    return np.arange(answers.size).reshape(answers.shape)


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


@given(
    arrays(np.int64, (2, 6), elements=st.integers(-1, 2)),
    arrays(np.float64, (2, 6), elements=st.sampled_from([0.0, 0.125, 0.25, 0.375, 1.0])),
)
def test_weighted_votes_are_sums_of_weights(answers: Ints, weights: Floats) -> None:
    right = count_votes(answers.ravel(), answers.ravel() == 1, in_rows(answers), weights.ravel()).right
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

    stops = compare(AdaptiveConsistency(), small_pool(5), (0.6, 0.85, 0.9, 0.95), value, most_frequent_is_right)
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


def test_curves_go_from_few_to_many_samples() -> None:
    pool = world(5, 12, 32)
    for rule, fewest in ((AdaptiveConsistency(), 1.0), (EarlyStoppingSelfConsistency(), 1.0)):
        budgets = [each.samples.mean() for each in rule.sweep(pool, Allowance(32))]
        assert budgets[0] == fewest and budgets[-1] > 20


@pytest.mark.parametrize("samples", [1, 2])
def test_windows_that_are_larger_than_the_budget_draw_it(samples: int) -> None:
    result = EarlyStoppingSelfConsistency().answer(world(6, 6, 4), Allowance(samples))
    assert result.samples.tolist() == [samples] * 6


def test_first_good_enough_in_every_order() -> None:
    rule = FirstGoodEnough()
    rule.tune(world(0, 60, 4), Allowance(4))

    def value(hand: Hand, question: int) -> float:
        scores = [one.score for one in hand if not np.isnan(one.score)]
        return max((1 / (1 + exp(-(rule.evidence_.slope * s + rule.evidence_.offset))) for s in scores), default=-1)

    stops = compare(rule, small_pool(1), (0.03, 0.31, 0.57, 0.97), value, best_is_right)
    assert len(np.unique(stops)) == 5


def test_scores_are_fitted_as_an_optimiser_fits_them() -> None:
    pool = world(5, 80, 4)
    evidence = ScoreEvidence.fit(pool.scores, pool.correct)
    r, w = pool.correct.sum(), (~pool.correct).sum()
    labels = np.where(pool.correct, (r + 1) / (r + 2), 1 / (w + 2))

    def loss(found: Floats) -> float:
        log_odds = found[0] * pool.scores + found[1]
        return float((np.logaddexp(0, log_odds) - labels * log_odds).sum())

    best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    assert [evidence.slope, evidence.offset] == pytest.approx(best.x, abs=1e-5)


@given(arrays(np.float64, 12, elements=st.floats(-50, 50)), arrays(np.bool_, 12))
def test_any_scores_give_probabilities_that_ascend(scores: Floats, correct: Floats) -> None:
    evidence = ScoreEvidence.fit(scores, correct.astype(bool))
    assert (np.diff(evidence.chance(np.sort(scores))) >= 0).all()
    assert np.isfinite([evidence.slope, evidence.offset]).all()


def test_scores_that_say_nothing_change_nothing() -> None:
    correct = np.array([[True, False, True, False]])
    for scores in (np.zeros((1, 4)), np.full((1, 4), np.nan), np.array([[-1.0, 1.0, -1.0, 1.0]])):
        assert ScoreEvidence.fit(scores, correct).chance(np.array([-3.0, 7.0])) == pytest.approx(0.5)


def tuned(name: str, calibration: Pool, allowance: Allowance, **arguments: object) -> SequentialRule:
    rule = create_as(SequentialRule, strategies, name, **arguments)
    rule.tune(calibration, allowance)
    return rule


def test_looking_at_scores_beats_the_same_number_of_samples_for_all() -> None:
    calibration, test = world(11, 300, 4, skill=3.0), world(12, 100, 32, skill=3.0)
    fixed = float(best_of_n(test.scores, test.correct, np.array([5])).mean())
    curve = tuned("first good enough", calibration, Allowance(32)).sweep(test, Allowance(32))
    budgets, accuracies = np.array([(each.samples.mean(), each.accuracy.mean()) for each in curve]).T
    assert np.interp(5.0, budgets, accuracies) > fixed + 0.02


def test_a_curve_is_what_its_points_give() -> None:
    calibration, test = world(17, 60, 4), world(18, 8, 16)
    for name, knob in (("first good enough", "threshold"), ("learned stopping", "price")):
        rule = tuned(name, calibration, Allowance(16))
        assert isinstance(rule, FirstGoodEnough | LearnedStopping)
        curve, points = rule.sweep(test, Allowance(16)), rule.curve_points(Allowance(16))
        one = tuned(name, calibration, Allowance(16), **{knob: abs(points[10])}).answer(test, Allowance(16))
        assert one.accuracy.tolist() == curve[10].accuracy.tolist()
        assert one.samples.tolist() == curve[10].samples.tolist()


def test_orders_leave_the_error_they_say() -> None:
    calibration, test = world(19, 60, 4), world(20, 12, 8)
    rule = tuned("first good enough", calibration, Allowance(8), threshold=0.7)
    assert isinstance(rule, FirstGoodEnough)
    result = rule.answer(test, Allowance(8))
    good = (expit(rule.evidence_.slope * test.scores + rule.evidence_.offset) >= 0.7).sum(axis=1)
    # The first of g good trajectories among M is drawn (M + 1) / (g + 1)-th on average.
    exact = np.where(good > 0, 9 / (good + 1), 8)
    assert result.samples == pytest.approx(exact, abs=0.3)
    assert result.order_error is not None and 0 < result.order_error.max() < 0.5 / np.sqrt(comb(8, 3))
