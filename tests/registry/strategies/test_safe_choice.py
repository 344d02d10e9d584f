"""Safe choice: luck does not pass, its choice keeps the promise, and it runs the rule that it names."""

from __future__ import annotations

import numpy as np
import pytest

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import Allowance, Answered, PoolStrategy
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.learned import LearnedStopping
from prmcal.registry.strategies.safe_choice import Candidates, SafeChoice
from tests.arrays import Floats
from tests.registry.create import create_as


def pool(seed: int, apart: float, questions: int = 120, size: int = 8) -> Pool:
    """Scores of right trajectories are higher by `apart`, and wrong answers agree often."""
    random = np.random.default_rng(seed)
    correct = random.random((questions, size)) < random.beta(0.5, 1, questions)[:, None]
    answers = np.where(correct, 0, random.integers(1, 3, correct.shape))
    return Pool(correct, answers, scores=random.normal(0, 1, correct.shape) + apart * correct)


def tuned(known: Pool, **arguments: float) -> SafeChoice:
    strategy = create_as(SafeChoice, strategies, "safe choice", **arguments)
    strategy.tune(known, Allowance(8))
    return strategy


def test_scores_that_mislead_leave_one_sample() -> None:
    random = np.random.default_rng(0)
    correct = random.random((120, 8)) < random.random((120, 1))
    misled = Pool(correct, np.where(correct, 0, 1), scores=np.where(correct, -1.0, 0.0))
    chosen = tuned(misled)
    assert chosen.answer(misled, Allowance(8)).samples.tolist() == [1.0] * 120
    assert len(chosen.sweep(misled, Allowance(8))) == 1


def test_good_scores_are_used_and_the_results_are_those_of_the_chosen_rule() -> None:
    known, new = pool(1, 3.0), pool(2, 3.0)
    strategy = tuned(known)
    rule = strategy.chosen_rule(Allowance(8))
    found = strategy.answer(new, Allowance(8))
    assert found.accuracy.mean() > new.correct.mean() + 0.2
    assert np.array_equal(found.accuracy, rule.strategy.answer(new, rule.allowance).accuracy)


def test_without_answers_it_chooses_among_the_rules_that_need_none() -> None:
    known = pool(7, 3.0)
    strategy = tuned(Pool(known.correct, None, scores=known.scores))
    assert strategy.answer(known, Allowance(8)).accuracy.mean() > known.correct.mean() + 0.2
    assert not any("vote" in rule.text or "ESC" in rule.text for rule in strategy.rules_)


def test_a_smaller_budget_is_never_exceeded_on_the_questions_that_chose() -> None:
    strategy = tuned(pool(3, 3.0))
    half = strategy.candidates_
    for budget in (1, 2, 4, 8):
        assert half.cost[strategy.rules_.index(strategy.chosen_rule(Allowance(budget)))] <= budget


@pytest.mark.parametrize("questions", [1, 2, 3])
def test_few_questions_promise_nothing_and_one_sample_is_drawn(questions: int) -> None:
    known = pool(4, 3.0, questions=questions)
    assert tuned(known).answer(known, Allowance(8)).samples.tolist() == [1.0] * questions


def naive(known: Candidates, delta: float, loss: float) -> set[int]:
    """The promise with loops, for fixed settings of one rule with 1, 2, ... samples."""
    critical = float(np.quantile(known.luck, 1 - delta))

    def shown(gains: Floats) -> bool:
        with_loss, weights = np.append(gains, -1.0), np.append(np.ones(len(gains)), 0.5)
        mean = np.average(with_loss, weights=weights)
        spread = np.sum(weights * (with_loss - mean) ** 2) / (weights.sum() - 1)
        return bool(mean / np.sqrt(spread / weights.sum()) > critical)

    passed = {0}
    for own in range(2, len(known.cost)):
        rivals = [each for each in range(2, own) if each != own]
        gains = [known.accuracy[own] - known.accuracy[each] + loss for each in rivals]
        if all(map(shown, [known.accuracy[own] - known.accuracy[0], *gains])):
            passed.add(own)
    return passed


@pytest.mark.parametrize("seed", range(4))
def test_the_settings_that_pass_are_those_of_a_naive_search(seed: int) -> None:
    random = np.random.default_rng(seed)
    chance = random.random(80)
    counts = np.array([1, 1, 2, 3, 4, 5])
    accuracy = 1 - (1 - chance) ** counts[:, None] - 0.4 * random.random((6, 80)) * (counts[:, None] > 1)
    known = Candidates(counts.astype(float), np.array([-1, 0, 0, 0, 0, 0]), accuracy)
    assert set(known.safe(0.1, 0.1)) == naive(known, 0.1, 0.1)
    assert len(known.safe(0.1, 0.1)) > 1


def by_luck(seed: int, questions: int = 50) -> Candidates:
    """Forty settings without a gain, most of which win and lose together."""
    random = np.random.default_rng(seed)
    shared = random.choice([-0.4, 0.0, 0.4], (1, questions))
    accuracy = 0.5 + shared + random.choice([-0.1, 0.1], (41, questions))
    accuracy[0] = 0.5
    return Candidates(np.linspace(1, 41, 41, dtype=np.float64), np.full(41, -1), accuracy)


def test_of_settings_that_gain_by_luck_alone_one_passes_with_probability_delta_at_most() -> None:
    worlds = [by_luck(seed) for seed in range(200)]
    assert np.mean([len(known.safe(0.1, 1.0)) > 1 for known in worlds]) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 200)
    ends = [known.interval(int(known.gains.mean(axis=1).argmax())) for known in worlds]
    assert np.mean([low <= 0 <= high for low, high in ends]) > 0.9
    assert min(known.p_value(known.likely()) for known in worlds) > 1e-3


def test_no_cost_is_paid_for_a_fifth_of_a_point() -> None:
    accuracy = np.repeat([[0.5], [0.903], [0.904]], 60, axis=1)
    known = Candidates(np.array([1.0, 5.0, 40.0]), np.full(3, -1), accuracy)
    assert known.best([0, 1, 2], 64) == 1
    assert known.best([0, 1, 2], 2) == 0


def test_a_rule_that_learns_is_tested_on_questions_that_it_has_not_learned_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rule that knows its own questions by heart looks perfect on them, and gains nothing on others."""

    def tune(rule: LearnedStopping, known: Pool, allowance: Allowance) -> None:
        rule.known_ = {row.tobytes() for row in known.scores}  # type: ignore[attr-defined]

    def sweep(rule: LearnedStopping, asked: Pool, allowance: Allowance) -> list[Answered]:
        known = np.array([row.tobytes() in rule.known_ for row in asked.scores])  # type: ignore[attr-defined]
        accuracy = np.where(known, 1.0, asked.correct.mean(axis=1))
        return [Answered(accuracy, np.full(len(accuracy), 2.0))] * len(rule.curve_points(allowance))

    monkeypatch.setattr(LearnedStopping, "tune", tune)
    monkeypatch.setattr(LearnedStopping, "sweep", sweep)
    strategy = tuned(pool(8, 0.0))
    learned = [place for place, rule in enumerate(strategy.rules_) if "learned" in rule.text]
    assert learned
    assert not strategy.candidates_.gains[learned].any()


def test_it_is_in_the_league_and_draws_no_more_than_the_calibration_questions_have() -> None:
    known = pool(5, 3.0, size=4)
    strategy = create_as(PoolStrategy, strategies, "safe choice")
    strategy.tune(known, Allowance(64))
    assert strategy.in_league
    assert strategy.answer(pool(6, 3.0, size=64), Allowance(64)).samples.max() <= 4
