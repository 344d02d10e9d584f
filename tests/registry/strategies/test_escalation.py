"""Escalation: brute force over every draw from two small pools, and what its numbers promise."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Literal

import numpy as np
import pytest

from prmcal.errors import FaultyPluginError, InvalidArgumentsError, PluginFailedError
from prmcal.registry.contracts.pool import Pool
from prmcal.registry.contracts.results import check_answered
from prmcal.registry.contracts.strategy import Answered, Asked, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import PassAt1, best_of_n
from prmcal.registry.strategies.thresholds import Escalation
from tests.registry.create import create_as
from tests.registry.strategies.sequential.every_order import One, best_is_right, small_pool, world

SIZE = 5


def pools(seed: int) -> Pool:
    """A small pool beside that of another LLM, with equal scores and with inputs that are too long."""
    own, other = small_pool(seed, size=SIZE), small_pool(seed + 100, size=SIZE)
    return Pool(own.correct, own.answers, scores=own.scores, rewards=own.rewards, others={"strong": other})


def escalation(**arguments: Any) -> Escalation:
    return create_as(Escalation, strategies, "escalation", **{"to": "strong", **arguments})


def drawn_from(pool: Pool, question: int, count: int) -> list[tuple[One, ...]]:
    """Every set of trajectories of a question."""
    every = [
        One(0, float(score), bool(right))
        for score, right in zip(pool.scores[question], pool.correct[question], strict=True)
    ]
    return list(combinations(every, count))


def simulated(
    strategy: Escalation, pool: Pool, own: int, other: int, question: int
) -> tuple[float, float, float, float]:
    """Accuracy, share of escalations, samples and pass@samples of one question, over all draws from both pools."""
    found = []
    for first in drawn_from(pool, question, own):
        scores = [one.score for one in first if not np.isnan(one.score)]
        if strategy.by == "question":
            chance = float(pool.rewards[question])
        else:
            chance = float(strategy.evidence_.chance(np.array(max(scores, default=np.nan))))
        escalates = np.isnan(chance) or chance < strategy.threshold
        seen = first if strategy.by == "answer" or not escalates else ()
        for second in drawn_from(pool.others["strong"], question, other):
            drawn = [*seen, *(second if escalates else ())]
            found.append(
                (
                    best_is_right(second if escalates else first),
                    float(escalates),
                    float(len(drawn)),
                    float(any(one.correct for one in drawn)),
                )
            )
    accuracy, escalated, samples, passed = np.mean(found, axis=0)
    return float(accuracy), float(escalated), float(samples), float(passed)


@pytest.mark.parametrize("by", ["answer", "question"])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize(("own", "other"), [(1, 2), (3, 1), (5, 5)])
def test_it_is_the_mean_over_every_draw(
    by: Literal["answer", "question"], threshold: float, own: int, other: int
) -> None:
    pool = pools(3)
    strategy = escalation(by=by, threshold=threshold, samples=own, to_samples=other)
    strategy.tune(world(1, 60, 6), Setting(SIZE))
    result = strategy.answer(pool, Setting(SIZE))
    asked = {each.llm: each for each in result.asked}
    assert list(asked) == ["", "strong"] and result.pass_at_samples is not None
    for question in range(pool.questions):
        accuracy, escalated, samples, passed = simulated(strategy, pool, own, other, question)
        assert result.accuracy[question] == pytest.approx(accuracy, abs=1e-12)
        assert asked["strong"].chance[question] == pytest.approx(escalated, abs=1e-12)
        assert result.samples[question] == pytest.approx(samples, abs=1e-12)
        assert result.pass_at_samples[question] == pytest.approx(passed, abs=1e-12)
    # What each LLM is asked for adds up.
    assert asked[""].samples + asked["strong"].samples == pytest.approx(result.samples)
    assert asked[""].samples == pytest.approx(own * asked[""].chance)
    assert asked["strong"].samples == pytest.approx(other * asked["strong"].chance)
    for llm, count, each in (("", own, pool), ("strong", other, pool.others["strong"])):
        assert asked[llm].alone == pytest.approx(best_of_n(each.scores, each.correct, [count])[:, 0])
    assert result.samples.max() <= strategy.most_samples(Setting(SIZE)) + 1e-12


def test_the_ends_of_the_threshold_are_the_two_llms_alone() -> None:
    cheap, strong = world(1, 50, 8), world(2, 50, 8)
    pool = Pool(cheap.correct, cheap.answers, scores=cheap.scores, others={"strong": strong})
    for threshold, place in ((0.0, 0), (1.0, 1)):
        strategy = escalation(threshold=threshold, samples=4, to_samples=2)
        strategy.tune(world(3, 50, 4), Setting(8))
        result = strategy.answer(pool, Setting(8))
        assert result.accuracy == pytest.approx(result.asked[place].alone)
        assert result.samples == pytest.approx(np.full(50, 4.0 + 2.0 * place))


def test_a_higher_threshold_escalates_more() -> None:
    pool = pools(5)
    shares = []
    for threshold in np.linspace(0, 1, 21):
        strategy = escalation(threshold=float(threshold), samples=3)
        strategy.tune(world(3, 50, 4), Setting(SIZE))
        shares.append(strategy.answer(pool, Setting(SIZE)).asked[1].chance.mean())
    assert np.all(np.diff(shares) >= -1e-12) and shares[0] < 0.3 < shares[-1] == 1.0


def test_the_probability_is_that_of_the_best_of_as_many_samples() -> None:
    # The best of four is right far more often than one, in a world where all questions are alike.
    known = world(4, 2000, 8, chances=(300.0, 300.0))
    for count, share in ((1, 0.5), (4, best_of_n(known.scores, known.correct, [4]).mean())):
        strategy = escalation(samples=count)
        strategy.tune(known, Setting(8))
        assert strategy.evidence_.base == pytest.approx(share, abs=0.02)
        assert len(strategy.evidence_.known) == 2000 * 8 // count
    strategy = escalation(samples=64)  # the calibration questions have fewer
    strategy.tune(known, Setting(64))
    assert len(strategy.evidence_.known) == 2000


def test_of_questions_with_a_known_chance_the_hard_ones_escalate() -> None:
    cheap, strong = world(1, 100, 8), world(2, 100, 8, chances=(50.0, 1.0))
    pool = Pool(
        cheap.correct, cheap.answers, scores=cheap.scores, rewards=cheap.success, others={"strong": strong}
    )
    result = escalation(by="question", threshold=0.4).answer(pool, Setting(8))
    own, other = result.asked
    hard = cheap.success < 0.4
    assert 0.1 < hard.mean() < 0.9
    assert other.chance.tolist() == hard.astype(float).tolist()
    assert own.chance.tolist() == (~hard).astype(float).tolist()
    assert result.accuracy == pytest.approx(np.where(hard, other.alone, own.alone))


def test_what_it_reads_depends_on_what_decides() -> None:
    by_answer, by_question = escalation(), escalation(by="question")
    assert (by_answer.once_for, by_answer.tuned) == ("prm", True)
    assert (by_question.once_for, by_question.tuned) == ("level", False)
    assert by_answer.others == ("strong",) and not by_answer.in_league


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1.5}, r"'threshold' .* must be less than or equal to 1. Got 1.5"),
        ({"by": "chance"}, "'by' .* must be .*'answer'.*'question'"),
        ({"to_samples": 0}, r"'to_samples' .* must be greater than or equal to 1.* Got 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        escalation(**arguments)


def test_more_samples_than_the_pool_are_refused() -> None:
    strategy = escalation(by="question", to_samples=9)
    with pytest.raises(ValueError, match="'to_samples' is 9, but the grid's fixed budget is 5"):
        strategy.answer(pools(1), Setting(SIZE))


def test_a_pool_of_an_llm_that_is_not_declared_is_an_error() -> None:
    with pytest.raises(PluginFailedError, match="Add 'weak' to its 'others'"):
        _ = pools(1).others["weak"]


def test_a_part_of_the_pool_has_the_same_questions_of_both_llms() -> None:
    pool = pools(2)
    part = pool.drawn(np.array([4, 1]), slice(0, 2))
    assert part.others["strong"].correct.tolist() == pool.others["strong"].correct[[4, 1]].tolist()
    assert part.correct.shape == (2, 2)


def test_what_is_asked_must_fit_the_samples_and_the_names() -> None:
    one = np.ones(3)
    wrong = Answered(one, 3 * one, asked=(Asked("", one, one, one), Asked("strong", one, one, one)))
    with pytest.raises(FaultyPluginError, match="sum of the 'samples' of all LLMs"):
        check_answered(wrong, escalation(), 3, Setting(8))
    with pytest.raises(FaultyPluginError, match=r"Got \('', 'strong'\)"):
        check_answered(wrong, escalation(to="other"), 3, Setting(8))
    with pytest.raises(FaultyPluginError, match=r"must be about \('', 'strong'\)"):
        check_answered(Answered(one, one), escalation(), 3, Setting(8))
    check_answered(Answered(one, one), PassAt1(), 3, Setting(8))
