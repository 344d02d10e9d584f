"""A calibrated PRM answers new questions by the rule of its run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prmcal
from prmcal import CalibratedPRM
from prmcal.errors import PrmcalError
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.registry.contracts.strategy import Allowance
from prmcal.registry.plugins import datasets
from prmcal.registry.strategies.best_of import PassAt1
from prmcal.steps import split_steps
from tests.served_run import CELL, NAN, shared_run

QUESTIONS = [question.text for question in datasets.create("nano-math").questions("test", 8)][4:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_run(tmp_path_factory)


def answering(folder: Path, strategy: str, target: float | None = None, samples: int = 3) -> CalibratedPRM:
    """The calibrated PRM of a cell with another strategy."""
    prm = prmcal.load(folder, CELL)
    prm.strategy, prm.allowance = PluginReference(strategy, strategy, {}), Allowance(samples, target)
    prm.level = 0.1
    return prm


def test_a_solution_has_the_answer_its_probability_and_its_cost(folder: Path) -> None:
    prm = prmcal.load(folder, CELL)
    solution = prm.answer(QUESTIONS[0], max_samples=4)
    chosen = solution.trajectories[solution.chosen]
    assert solution.answer == chosen.answer and "learned stopping" in solution.reason
    assert len(solution.trajectories) == solution.samples <= 4
    assert solution.generated_tokens == sum(trajectory.tokens for trajectory in solution.trajectories)
    if solution.answer is not None:
        place = chosen.rewards.terminal.index(True) - 1
        assert solution.probability == chosen.rewards.point[place]
        assert solution.low is not None and solution.high is not None
        assert 0 <= solution.low <= solution.high <= 1
    again = prm.score(QUESTIONS[0], split_steps(chosen.text))
    assert again.uncalibrated == pytest.approx(chosen.rewards.uncalibrated, abs=1e-4)
    assert prm.answer(QUESTIONS[0], max_samples=4).trajectories[0].text == solution.trajectories[0].text
    other = [prm.answer(text, max_samples=1, seed=1).trajectories[0].text for text in QUESTIONS]
    assert other != [prm.answer(text, max_samples=1).trajectories[0].text for text in QUESTIONS]


@pytest.mark.parametrize(
    ("strategy", "target"),
    [
        ("pass@1", None),
        ("best-of-n", None),
        ("majority vote", None),
        ("weighted best-of-n", None),
        ("best-of-n + IAS", 0.99),
        ("adaptive consistency", None),
        ("first good enough", None),
        ("learned stopping", None),
        ("safe choice", None),
    ],
)
def test_strategies_answer_within_their_budget(folder: Path, strategy: str, target: float | None) -> None:
    solution = answering(folder, strategy, target).answer(QUESTIONS[1])
    assert solution.samples >= 1 and solution.question == QUESTIONS[1]
    assert solution.answer == solution.trajectories[solution.chosen].answer
    assert solution.samples == len(solution.trajectories) <= 3
    if strategy in ("pass@1", "best-of-n"):
        assert solution.samples == (1 if strategy == "pass@1" else 3)
    if strategy == "best-of-n":
        scores = [trajectory.rewards.log_odds[-1] for trajectory in solution.trajectories]
        assert solution.chosen == int(np.argmax(np.array(scores, float)))


def test_ias_draws_the_samples_of_proposition_1(folder: Path) -> None:
    prm = answering(folder, "best-of-n + IAS", 0.5, samples=8)
    quantiles = prm.score(QUESTIONS[0]).quantiles[0]
    assert quantiles is not None
    needed = np.ceil(np.log(1 - 0.5) / np.log1p(-quantiles[prm.scorer.levels.index(0.1)]))
    assert prm.answer(QUESTIONS[0]).samples == np.clip(needed, 1, 8)


def test_what_cannot_be_answered_is_told_and_the_next_question_works(folder: Path) -> None:
    prm = prmcal.load(folder, CELL)
    for question, said in (("", "not empty"), ("x" * 50_000, "too long"), (f"Please {NAN}.", "NaN")):
        with pytest.raises(PrmcalError, match=said):
            prm.answer(question, max_samples=1)
    assert prm.answer("計算 35 加 2", max_samples=1).samples == 1
    for strategy, said in (("oracle IAS", "is a reference"), ("beam search", "searches step by step")):
        with pytest.raises(PrmcalError, match=said):
            answering(folder, strategy, 0.9).answer(QUESTIONS[0])


def test_a_strategy_that_chooses_wrongly_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PassAt1, "choose", lambda *_: 7)
    with pytest.raises(PrmcalError, match="must return the index of one of 1 trajectories"):
        answering(folder, "pass@1").answer(QUESTIONS[0])
