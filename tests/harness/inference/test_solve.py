"""New questions are answered, alone or together, and a question that fails harms no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import prmcal
from prmcal import CalibratedPRM, Solution, Step
from prmcal.errors import PrmcalError
from prmcal.registry.plugins import datasets
from prmcal.registry.strategies.best_of import PassAt1
from prmcal.steps import split_steps
from tests.served_run import CELL, GONE, NAN, shared_run

QUESTIONS = [each.text for each in datasets.create("nano-math").questions("test", 12)][4:]
SEARCH = {"strategy": "beam search"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_run(tmp_path_factory)


@pytest.fixture(scope="module")
def loaded(folder: Path) -> CalibratedPRM:
    return prmcal.load(folder, CELL)


def test_a_solution_has_the_answer_its_probability_and_its_cost(loaded: CalibratedPRM) -> None:
    solution = loaded.solve(QUESTIONS[0], max_samples=4, target=0.999)
    assert solution.chosen is not None and solution.rewards is not None
    chosen = solution.trajectories[solution.chosen]
    assert solution.answer == chosen.answer
    assert len(solution.trajectories) == solution.spent.samples <= 4
    assert solution.spent.generated_tokens == sum(each.tokens for each in solution.trajectories)
    if solution.answer is not None:
        assert solution.probability is not None and solution.low is not None and solution.high is not None
        assert 0 <= solution.low <= solution.probability <= solution.high <= 1
    assert len(solution.rewards.point) == len(split_steps(chosen.text)) + 1
    assert loaded.score(QUESTIONS[0], split_steps(chosen.text)).uncalibrated == pytest.approx(
        solution.rewards.uncalibrated, abs=1e-4
    )


def test_together_they_get_the_same_answers_as_alone_in_any_order(loaded: CalibratedPRM) -> None:
    together = loaded.solve_many(QUESTIONS, max_samples=3)
    backwards = loaded.solve_many(QUESTIONS[::-1], max_samples=3)[::-1]
    alone = loaded.solve(QUESTIONS[2], max_samples=3)
    for one, other in zip(together, backwards, strict=True):
        assert [each.text for each in one.trajectories] == [each.text for each in other.trajectories]
        assert one.answer == other.answer
    assert [each.text for each in alone.trajectories] == [each.text for each in together[2].trajectories]
    other_seed = loaded.solve_many(QUESTIONS, max_samples=3, seed=1)
    assert [each.trajectories[0].text for each in other_seed] != [
        each.trajectories[0].text for each in together
    ]


@pytest.mark.parametrize(
    "strategy",
    [
        "pass@1",
        "best-of-n",
        "majority vote",
        "best-of-n + IAS",
        "posterior vote",
        "beam search",
    ],
)
def test_strategies_answer_within_their_budget(loaded: CalibratedPRM, strategy: str) -> None:
    first, second = loaded.solve_many(QUESTIONS[:2], strategy=strategy, max_samples=3)
    for solution in (first, second):
        assert not solution.error
        assert solution.basis == ("reward" if strategy == "beam search" else "posterior")
        assert solution.spent.samples >= 1
        if strategy != "beam search":
            assert solution.spent.samples <= 3
    if strategy == "pass@1":
        assert first.spent.samples == 1 and first.stopped == "planned"


def test_a_sure_rule_stops_early_and_an_unsure_answer_is_withheld(loaded: CalibratedPRM) -> None:
    asked = loaded.solve_many(QUESTIONS, max_samples=4, target=0.5)
    assert {each.stopped for each in asked} <= {"sure", "budget"}
    assert min(each.spent.samples for each in asked) < 4
    unsure = loaded.solve_many(QUESTIONS, max_samples=4, target=0.5, abstain_below=0.999999)
    for before, after in zip(asked, unsure, strict=True):
        if before.answer is not None:
            assert after.answer is None and after.abstained and "withheld" in after.reason
            assert after.probability == before.probability


def test_in_a_batch_only_the_rows_that_fail_have_errors(loaded: CalibratedPRM) -> None:
    bad = ["", "  \n", "x" * 50_000, f"Please {NAN}.", "half of a pair \ud800", 7]
    good = QUESTIONS[:2]
    found = loaded.solve_many([good[0], *bad, good[1]], max_samples=2)  # type: ignore[list-item]
    said = ["empty", "empty", "too long", "NaN", "surrogate", "must be a text"]
    assert [bool(each.error) for each in found] == [False] + [True] * len(bad) + [False]
    for solution, words in zip(found[1:-1], said, strict=True):
        assert words in solution.error
        assert solution.stopped == "failed" and solution.answer is None
    assert found[0].trajectories == loaded.solve_many(good, max_samples=2)[0].trajectories
    with pytest.raises(PrmcalError, match="empty"):
        loaded.solve("")
    scored = loaded.score_each([(good[0], ()), ("", ()), (f"{NAN}", ()), (good[1], ("", "x"))])
    assert [isinstance(each, PrmcalError) for each in scored] == [False, True, True, True]


def test_a_prm_that_goes_away_is_told_and_the_next_call_works(loaded: CalibratedPRM) -> None:
    found = loaded.solve_many([QUESTIONS[0], f"{GONE} now"], max_samples=1)
    assert "nano-prm" in found[1].error
    assert loaded.solve(QUESTIONS[0], max_samples=1).error == ""


def test_text_in_other_languages_is_answered_and_told_as_unusual(loaded: CalibratedPRM) -> None:
    for question in ("¿Cuánto es 2+2?", "計算 35 加 2", "ما هو 6 ضرب 7؟"):
        solution = loaded.solve(question, max_samples=1)
        assert not solution.error and not solution.familiarity.familiar


def test_settings_that_do_not_fit_are_refused(loaded: CalibratedPRM) -> None:
    for how, said in (
        ({"strategy": "oracle IAS"}, "reference point"),
        ({"strategy": "postrior vote"}, "Did you mean 'posterior vote'"),
        ({"strategy": "best-of-n", "target": 0.9}, "has no target"),
        ({"level": 0.1}, "at no level"),
        ({"strategy": "best-of-n + IAS", "level": 0.33}, "does not predict the level 0.33"),
        ({"target": 1.0}, "target: Input should be less than 1"),
        ({"max_samples": 0}, "max_samples"),
        ({"abstain_below": 2.0}, "abstain_below"),
    ):
        with pytest.raises(PrmcalError, match=said):
            loaded.solve(QUESTIONS[0], **how)


def test_steps_come_with_the_rewards_of_their_prefixes(loaded: CalibratedPRM) -> None:
    *steps, solution = loaded.stream(QUESTIONS[1], reference="-1", max_samples=2, target=0.9999)
    assert isinstance(solution, Solution) and not solution.error
    assert solution.correct == (None if solution.answer is None else False)
    assert len(solution.familiarity.values) == 4  # with the outcome
    assert all(isinstance(each, Step) for each in steps)
    bare, *others = [each for each in steps if isinstance(each, Step)]
    assert (bare.step, bare.text) == (0, "")
    for number, trajectory in enumerate(solution.trajectories):
        own = [each for each in others if each.trajectory == number]
        assert tuple(each.text for each in own) == split_steps(trajectory.text)
        assert [each.step for each in own] == list(range(1, len(own) + 1))
        scored = loaded.score(QUESTIONS[1], split_steps(trajectory.text))
        np.testing.assert_allclose(
            np.array([each.uncalibrated for each in own], float),
            np.array(scored.uncalibrated[1:], float),
            atol=1e-4,
        )
        assert [each.terminal for each in own] == list(scored.terminal[1:])
    seen: list[Step] = []
    again = loaded.solve(QUESTIONS[1], max_samples=2, target=0.9999, on_step=seen.append)
    assert again.answer == solution.answer and seen == [bare, *others]


def test_waiting_calls_of_a_server_are_scored_together_with_the_same_rewards(loaded: CalibratedPRM) -> None:
    async def clients() -> list[list[prmcal.PrefixRewards]]:
        return await asyncio.gather(*(loaded.ascore_many([(text, ())]) for text in QUESTIONS))

    found = asyncio.run(clients())
    for (together,), text in zip(found, QUESTIONS, strict=True):
        np.testing.assert_allclose(
            np.array(together.quantiles, float), np.array(loaded.score(text).quantiles, float), atol=1e-4
        )

    async def one() -> tuple[Solution, list[Step | Solution]]:
        solution = await loaded.asolve(QUESTIONS[0], max_samples=1)
        return solution, [each async for each in loaded.astream(QUESTIONS[0], max_samples=1)]

    solution, events = asyncio.run(one())
    assert solution.spent.samples == 1 and isinstance(events[-1], Solution)

    async def gone() -> int:
        events = loaded.astream(QUESTIONS[0], max_samples=4, target=0.999999)
        async for _ in events:
            break
        await events.aclose()  # type: ignore[attr-defined]
        return (await loaded.asolve(QUESTIONS[0], max_samples=1)).spent.samples

    assert asyncio.run(gone()) == 1

    async def bad() -> None:
        await loaded.ascore_many([("", ())])

    with pytest.raises(PrmcalError, match="empty"):
        asyncio.run(bad())
    with pytest.raises(PrmcalError, match="targett: Extra inputs are not permitted"):
        next(loaded.stream(QUESTIONS[0], targett=0.9))


def test_memory_is_given_back_and_models_come_again(folder: Path) -> None:
    with prmcal.load(folder, CELL) as prm:
        before = prm.score(QUESTIONS[0])
        models = prm._models
        assert "modules" in vars(models.prm)
        prm.solve(QUESTIONS[0], max_samples=1)
    assert "modules" not in vars(models.prm) and "_model" not in vars(models.llm)
    assert prm.score(QUESTIONS[0]) == before
    prm.close()


def test_a_strategy_that_chooses_wrongly_is_told_for_each_question(
    loaded: CalibratedPRM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PassAt1, "choose", lambda *_: 7)
    found = loaded.solve_many(QUESTIONS[:2], strategy="pass@1")
    assert all("must return the index of one of 1 trajectories" in each.error for each in found)


def test_an_alarm_is_raised_when_questions_are_no_longer_like_the_calibration_questions(folder: Path) -> None:
    with prmcal.load(folder, CELL) as prm:
        assert not any(each.alarm for each in prm.solve_many(QUESTIONS, max_samples=1)) and not prm.alarm
        longer = [f"{each} {'Take your time. ' * 9}" for each in QUESTIONS * 3]
        solutions = prm.solve_many(longer, max_samples=1)
        assert "the length of the question in characters is higher" in prm.alarm
        assert solutions[-1].alarm == prm.alarm


def test_outcomes_are_compared_where_the_right_answers_are_known(loaded: CalibratedPRM) -> None:
    references = [each.answer for each in datasets.create("nano-math").questions("test", 12)][4:]
    graded = loaded.solve_many(QUESTIONS, references, max_samples=2)
    unknown = loaded.solve_many(QUESTIONS, max_samples=2)
    for one, other, reference in zip(graded, unknown, references, strict=True):
        assert one.correct == (None if one.answer is None else one.answer == reference)
        first = one.trajectories[0]
        reward = one.familiarity.values["reward of the first trajectory"]
        outcome = one.familiarity.values["outcome of the first trajectory minus its reward"]
        assert outcome == pytest.approx((first.answer == reference) - reward)
        assert other.correct is None and len(other.familiarity.values) == 3
    with pytest.raises(PrmcalError, match="8 questions and 1 references"):
        loaded.solve_many(QUESTIONS, ["1"])
