"""Rules that stop by calibrated scores: equal to a slow program in every order, calibrated, and worth their cost."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import comb, exp, lgamma, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import expit, logit

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import best_of_n
from prmcal.registry.strategies.evidence import FirstGoodEnough, ScoreEvidence
from prmcal.registry.strategies.learned import LearnedStopping
from prmcal.registry.strategies.posterior_vote import PosteriorVote, beta_of, diversity_of
from tests.arrays import Floats
from tests.registry.create import create_as
from tests.registry.strategies.sequential.every_order import (
    Hand,
    One,
    best_is_right,
    compare,
    small_pool,
    some_orders,
    world,
)

LEVELS = (0.1, 0.5, 0.9)
NEAR_ONE = tuple(1 - digits * 2.0**-53 for digits in (1, 2, 3, 4, 5))
"""Targets whose doubt 1 - C is lost if it is subtracted from 1."""


def likelihood_ratio(evidence: ScoreEvidence, score: float) -> float:
    if np.isnan(score):
        return 1.0
    chance = 1 / (1 + exp(-(evidence.slope * score + evidence.offset)))
    return chance / (1 - chance) * (1 - evidence.base) / evidence.base


def test_first_good_enough_in_every_order() -> None:
    rule = FirstGoodEnough()
    rule.tune(world(0, 60, 4), Setting(4))

    def value(hand: Hand, question: int) -> float:
        scores = [one.score for one in hand if not np.isnan(one.score)]
        return max(
            (1 / (1 + exp(-(rule.evidence_.slope * s + rule.evidence_.offset))) for s in scores), default=-1
        )

    stops = compare(rule, small_pool(1), (0.03, 0.31, 0.57, 0.97), value, best_is_right)
    assert len(np.unique(stops)) == 5


def answer_odds(rule: PosteriorVote, hand: Hand, agreement: float) -> dict[int, float]:
    """The probability of each answer to be right, up to a factor; -1 stands for no right one."""
    (a, b), theta, t = rule.successes_, rule.diversity_, len(hand)

    def of_partition(sizes: list[int]) -> float:
        """The logarithm of Ewens' sampling formula for answers that agree by chance."""
        ways = len(sizes) * log(theta) + sum(lgamma(size) for size in sizes)
        return ways - sum(log(theta + i) for i in range(sum(sizes)))

    def beta(x: float, y: float) -> float:
        return lgamma(x) + lgamma(y) - lgamma(x + y)

    votes = Counter(one.answer for one in hand if one.answer >= 0)
    none = beta(a, b + t) + of_partition(list(votes.values()))
    found = {-1: none}
    for answer, n in votes.items():
        others = [size for other, size in votes.items() if other != answer]
        best = max(likelihood_ratio(rule.evidence_, one.score) for one in hand if one.answer == answer)
        full = beta(a + n, b + t - n) + of_partition(others)
        single = (
            none + beta(a + 1, b + t - 1) - beta(a, b + t) + log((theta + sum(votes.values()) - 1) / theta)
        )
        found[answer] = single + agreement * (full - single) + log(best)
    return {answer: exp(each) for answer, each in found.items()}


@pytest.mark.parametrize("agreement", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("most", "names"), [(5, 3), (70, 30), (70, 1000)])
def test_posterior_vote_in_every_order(agreement: float, most: int, names: int) -> None:
    rule = PosteriorVote()
    rule.tune(world(0, 60, 4), Setting(4, 0.9))
    rule.agreement_ = agreement

    def value(hand: Hand, question: int) -> Fraction:
        found = {answer: Fraction(each) for answer, each in answer_odds(rule, hand, agreement).items()}
        best = max((each for answer, each in found.items() if answer >= 0), default=Fraction(0))
        return best / sum(found.values())

    def right(hand: Hand) -> float:
        found = {a: each for a, each in answer_odds(rule, hand, agreement).items() if a >= 0}
        first = [answer for answer, each in found.items() if each >= max(found.values()) * (1 - 1e-9)]
        return (0 in first) / len(first) if first else 0.0

    pool, orders = small_pool(4), None
    if most > 5:
        # With 1,000 names, most answers occur once.
        pool, orders = world(4, 6, most, skill=2.0), some_orders(most, 4)
        pool.answers[~pool.correct] = np.random.default_rng(names).integers(1, names, (~pool.correct).sum())
    stops = compare(rule, pool, (0.2, 0.5, 0.8, 0.97, 1 - 1e-9, *NEAR_ONE), value, right, orders)
    assert len(np.unique(stops)) >= 5


def test_votes_count_as_much_as_makes_the_calibration_questions_likeliest() -> None:
    chosen = set()
    for seed, names in ((30, 30), (31, 3), (32, 2)):
        pool = world(seed, 150, 4, skill=1.0)
        random = np.random.default_rng(seed)
        # In half of the questions, all wrong trajectories make the same mistake.
        wrong = np.where(random.random((150, 1)) < 0.5, 1, random.integers(1, names, pool.answers.shape))
        answers = np.where(pool.correct, 0, wrong)
        answers[random.random(answers.shape) < 0.1] = -1
        calibration = Pool(answers == 0, answers, scores=pool.scores)
        rule = PosteriorVote()
        rule.tune(calibration, Setting(4, 0.9))
        likelihood = {}
        for agreement in (0.0, 0.25, 0.5, 0.75, 1.0):
            total = 0.0
            for own, scores in zip(answers, pool.scores, strict=True):
                hand = [One(int(x), float(s), x == 0) for x, s in zip(own, scores, strict=True)]
                odds = answer_odds(rule, hand, agreement)
                total += log(odds[0 if 0 in own else -1] / sum(odds.values()))
            likelihood[agreement] = total
        assert rule.agreement_ == max(likelihood, key=lambda each: likelihood[each])
        chosen.add(rule.agreement_)
    assert len(chosen) > 1


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
    chance = evidence.chance(np.sort(scores))
    assert (np.diff(chance) >= 0).all() and np.isfinite([evidence.slope, evidence.offset]).all()
    ratio = evidence.log_ratio(scores)
    assert logit(evidence.base) + ratio == pytest.approx(
        evidence.slope * scores + evidence.offset, abs=1e-6
    ) or np.isclose(np.abs(ratio).max(), 30)


def test_scores_that_say_nothing_change_nothing() -> None:
    correct = np.array([[True, False, True, False]])
    for scores in (np.zeros((1, 4)), np.full((1, 4), np.nan), np.array([[-1.0, 1.0, -1.0, 1.0]])):
        evidence = ScoreEvidence.fit(scores, correct)
        assert evidence.log_ratio(np.array([-3.0, np.nan, 3.0])).tolist() == [0.0, 0.0, 0.0]
        assert evidence.chance(np.array([7.0])) == pytest.approx(0.5)


def test_the_law_of_success_is_the_likeliest_beta_law() -> None:
    pool = world(7, 2000, 8, chances=(0.6, 0.9))
    a, b = beta_of(pool.correct)
    assert a == pytest.approx(0.6, rel=0.2) and b == pytest.approx(0.9, rel=0.2)
    chance = a / (a + b)
    assert chance == pytest.approx(pool.correct.mean(), abs=0.001)


def test_diversity_is_that_of_equal_pairs() -> None:
    answers = np.array([[0, 1, 1, 2], [0, 3, 4, -1]])
    # Wrong pairs: (1, 1), (1, 2), (1, 2) and (3, 4).
    assert diversity_of(answers, answers == 0) == pytest.approx((3 + 1) / (1 + 1))
    assert diversity_of(answers, np.ones((2, 4), bool)) == 1.0
    random = np.random.default_rng(8)
    drawn = random.integers(0, 10, (500, 8))
    # Ten equally frequent wrong answers: two are equal with probability .1.
    assert 1 / (1 + diversity_of(drawn, np.zeros(drawn.shape, bool))) == pytest.approx(0.1, abs=0.01)


def tuned(name: str, calibration: Pool, setting: Setting, **arguments: object) -> PoolStrategy:
    strategy = create_as(PoolStrategy, strategies, name, **arguments)
    strategy.tune(calibration, setting)
    return strategy


def test_the_target_is_reached_where_the_world_is_as_assumed() -> None:
    setting = Setting(64, 0.9)
    strategy = tuned("posterior vote", world(9, 500, 4), setting)
    result = strategy.answer(world(10, 60, 64, chances=(6.0, 9.0)), setting)
    assert result.accuracy.mean() >= 0.9
    assert result.samples.mean() < 20


def accuracy_at(points: tuple[Answered, ...], samples: float) -> float:
    budgets = np.array([each.samples.mean() for each in points])
    order = np.argsort(budgets)
    return float(np.interp(samples, budgets[order], [points[i].accuracy.mean() for i in order]))


def test_looking_at_scores_beats_the_same_number_of_samples_for_all() -> None:
    calibration, test = world(11, 300, 4, skill=3.0), world(12, 100, 32, skill=3.0)
    fixed = float(best_of_n(test.scores, test.correct, np.array([5])).mean())
    for name in ("first good enough", "posterior vote"):
        setting = Setting(32, 0.9 if strategies.get(name).targeted else None)
        found = accuracy_at(tuned(name, calibration, setting).sweep(test, setting), 5.0)
        assert found > fixed + 0.02, name


def test_a_tuned_threshold_is_the_lowest_that_costs_no_accuracy() -> None:
    calibration, setting = world(16, 200, 6, skill=3.0), Setting(16)
    chosen = tuned("first good enough", calibration, setting, threshold="tuned")
    assert isinstance(chosen, FirstGoodEnough)
    assert 0.5 < chosen.threshold_ < chosen.curve_points(Setting(16))[-1]
    best = best_of_n(calibration.scores, calibration.correct, np.array([6])).mean()
    own = chosen.answer(calibration, Setting(6))
    assert own.accuracy.mean() > best - 0.03 and own.samples.mean() < 5


def test_a_curve_is_what_its_points_give() -> None:
    calibration, test = world(17, 60, 4), world(18, 8, 16)
    for name, knob in (("first good enough", "threshold"), ("learned stopping", "price")):
        rule = tuned(name, calibration, Setting(16))
        assert isinstance(rule, FirstGoodEnough | LearnedStopping)
        curve, points = rule.sweep(test, Setting(16)), rule.curve_points(Setting(16))
        one = tuned(name, calibration, Setting(16), **{knob: abs(points[10])}).answer(test, Setting(16))
        assert one.accuracy.tolist() == curve[10].accuracy.tolist()
        assert one.samples.tolist() == curve[10].samples.tolist()


def test_orders_leave_the_error_they_say() -> None:
    calibration, test = world(19, 60, 4), world(20, 12, 8)
    rule = tuned("first good enough", calibration, Setting(8), threshold=0.7)
    result = rule.answer(test, Setting(8))
    good = (expit(rule.evidence_.slope * test.scores + rule.evidence_.offset) >= 0.7).sum(axis=1)  # type: ignore[attr-defined]
    # The first of g good trajectories among M is drawn (M + 1) / (g + 1)-th on average.
    exact = np.where(good > 0, 9 / (good + 1), 8)
    assert result.samples == pytest.approx(exact, abs=0.3)
    assert result.order_error is not None and 0 < result.order_error.max() < 0.5 / np.sqrt(comb(8, 3))
