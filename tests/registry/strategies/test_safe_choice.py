"""Safe choice: its evidence is honest, its choice keeps the promise, and it runs the rule that it names."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.strategy import PoolStrategy, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.safe_choice import Candidates, SafeChoice, log_evidence
from tests.arrays import Floats
from tests.registry.create import create_as

GAINS = st.lists(st.floats(-1, 1), min_size=2, max_size=4)


@given(GAINS, GAINS, st.data())
def test_the_expected_evidence_of_what_is_not_there_is_one(
    known: list[float], values: list[float], data: st.DataObject
) -> None:
    """Over all outcomes of a law with the mean 0, whatever was known before."""
    shifted = np.clip(np.array(values) - np.mean(values), -1, None)
    shifted -= shifted.mean()
    assume(shifted.min() >= -1)
    questions = data.draw(st.integers(1, 3))
    outcomes = np.array(list(product(shifted, repeat=questions)))
    evidence = np.exp(log_evidence(outcomes, np.broadcast_to(known, (len(outcomes), len(known)))))
    assert evidence.mean() == pytest.approx(1, rel=1e-9)


def pool(seed: int, apart: float, questions: int = 240, size: int = 8) -> Pool:
    """Scores of right trajectories are higher by `apart`, and wrong answers agree often."""
    random = np.random.default_rng(seed)
    correct = random.random((questions, size)) < random.beta(0.5, 1, questions)[:, None]
    answers = np.where(correct, 0, random.integers(1, 3, correct.shape))
    return Pool(correct, answers, scores=random.normal(0, 1, correct.shape) + apart * correct)


def tuned(known: Pool, **arguments: float) -> SafeChoice:
    strategy = create_as(SafeChoice, strategies, "safe choice", **arguments)
    strategy.tune(known, Setting(8))
    return strategy


def test_scores_that_mislead_leave_one_sample() -> None:
    random = np.random.default_rng(0)
    correct = random.random((240, 8)) < random.random((240, 1))
    misled = Pool(correct, np.where(correct, 0, 1), scores=np.where(correct, -1.0, 0.0))
    chosen = tuned(misled)
    assert chosen.answer(misled, Setting(8)).samples.tolist() == [1.0] * 240
    assert len(chosen.sweep(misled, Setting(8))) == 1


def test_good_scores_are_used_and_the_results_are_those_of_the_chosen_rule() -> None:
    known, new = pool(1, 3.0), pool(2, 3.0)
    strategy = tuned(known)
    rule = strategy.chosen(Setting(8))
    found = strategy.answer(new, Setting(8))
    assert found.accuracy.mean() > new.correct.mean() + 0.2
    assert np.array_equal(found.accuracy, rule.strategy.answer(new, rule.setting).accuracy)


def test_without_answers_it_chooses_among_the_rules_that_need_none() -> None:
    known = pool(7, 3.0)
    strategy = tuned(Pool(known.correct, None, scores=known.scores))
    assert strategy.answer(known, Setting(8)).accuracy.mean() > known.correct.mean() + 0.2
    assert not any("vote" in rule.text or "ESC" in rule.text for rule in strategy.rules_)


def test_a_smaller_budget_is_never_exceeded_on_the_questions_that_chose() -> None:
    strategy = tuned(pool(3, 3.0))
    half = strategy.candidates_
    for budget in (1, 2, 4, 8):
        assert half.cost[strategy.rules_.index(strategy.chosen(Setting(budget)))] <= budget


@pytest.mark.parametrize("questions", [1, 2, 3])
def test_few_questions_promise_nothing_and_one_sample_is_drawn(questions: int) -> None:
    known = pool(4, 3.0, questions=questions)
    assert tuned(known).answer(known, Setting(8)).samples.tolist() == [1.0] * questions


def test_a_loss_can_only_be_excluded_by_enough_questions() -> None:
    """A law with a loss of 1 in a share of x looks perfect with probability (1 - x)^n, which must be below delta."""
    perfect = np.zeros(44) + 0.05
    assert log_evidence(perfect, perfect) < np.log(10)
    assert log_evidence(np.zeros(70) + 0.05, np.zeros(70) + 0.05) > np.log(10)


def naive(known: Candidates, most: int, delta: float, loss: float) -> set[int]:
    """The promise with loops, for fixed settings of one rule with 1, 2, ... samples."""

    def gains(own: int, table: Floats) -> list[Floats]:
        rivals = [
            each for each in range(2, len(table)) if each != own and known.cost[each] <= known.cost[own]
        ]
        return [table[own] - table[0], *(table[own] - table[each] + loss for each in rivals)]

    budgets = [*(n for n in (2, 4, 8) if n < most), most]
    means = known.learned.mean(axis=1)
    proposed = {max(np.flatnonzero(known.cost <= each), key=lambda i: round(means[i], 9)) for each in budgets}
    least = {own: min(map(log_evidence, gains(own, known.learned))) for own in proposed - {0, 1}}
    passed = {0}
    for own in sorted(least, key=lambda each: -least[each]):
        pairs = zip(gains(own, known.tested), gains(own, known.learned), strict=True)
        if min(log_evidence(tested, learned) for tested, learned in pairs) < np.log(1 / delta):
            break
        passed.add(own)
    return passed


@pytest.mark.parametrize("seed", range(8))
def test_the_settings_that_pass_are_those_of_a_naive_search(seed: int) -> None:
    random = np.random.default_rng(seed)
    chance = random.random((2, 1, 80))
    counts = np.array([1, 1, 2, 3, 4, 5])
    learned, tested = 1 - (1 - chance) ** counts[:, None] - 0.02 * random.random((2, 6, 80))
    if seed % 2:  # The gains of the first half are not there in the second one.
        tested[2:] = tested[0] - 0.01
    learned[1], tested[1] = learned[0], tested[0]
    known = Candidates(counts.astype(float), np.array([-1, 0, 0, 0, 0, 0]), learned, tested)
    assert set(known.safe(5, 0.1, 0.1)) == naive(known, 5, 0.1, 0.1)


def test_it_is_in_the_league_and_draws_no_more_than_the_calibration_questions_have() -> None:
    known = pool(5, 3.0, size=4)
    strategy = create_as(PoolStrategy, strategies, "safe choice")
    strategy.tune(known, Setting(64))
    assert strategy.in_league
    assert strategy.answer(pool(6, 3.0, size=64), Setting(64)).samples.max() <= 4
