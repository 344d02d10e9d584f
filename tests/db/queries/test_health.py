"""The health of a run: checks against brute force, and the findings on data with known faults."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prmcal.db.queries.health import areas_within, health
from prmcal.db.run_folder import database_path
from prmcal.db.tables import HealthCheck
from prmcal.db.text.health import misleading, sentence, title
from prmcal.db.writer import Writer
from tests.db.factory import job
from tests.stored import publish

Solution = dict[str, object]


def solution(question: int, trajectory: int, *, reward: float | None = 0.5, **changes: object) -> Solution:
    """A solution of two steps with a reward."""
    return {
        "question_id": f"q{question}",
        "trajectory": trajectory,
        "text": f"First.\n\nThe answer is {trajectory % 2}.",
        "steps": 2,
        "tokens": 9,
        "prompt_tokens": 4,
        "finish_reason": "end",
        "answer": str(trajectory % 2),
        "verdict": "correct" if trajectory % 2 else "incorrect",
        "reward": reward,
        **changes,
    }


def findings(
    folder: Path, solutions: Sequence[Solution], bare: float | None = 0.4, *, all_checks: bool = False
) -> tuple[HealthCheck, ...]:
    """Write solutions and rewards into a database as a run does, and check its health."""
    folder.mkdir(exist_ok=True)
    table = pd.DataFrame(solutions)
    table["correct"] = table["verdict"] == "correct"
    rewards = [
        {**dict(row), "step": step, "reward": row["reward"] if step else bare}
        for (_, row), step in itertools.product(table[["question_id", "trajectory", "reward"]].iterrows(), range(3))
    ]
    scored = pd.DataFrame(rewards).astype({"reward": "float64", "step": "int64"})
    scored["logit"], scored["over_long"] = np.float32(0.0), scored["reward"].isna()
    paths = {"rollout": folder / "trajectories.parquet", "score": folder / "rewards.parquet"}
    table.drop(columns="reward").to_parquet(paths["rollout"])
    scored.to_parquet(paths["score"])
    place = {"llm": "weak", "dataset": "math"}
    writer = Writer(database_path(folder))
    with writer.transaction() as transaction:
        transaction.record(
            [
                *job("r", "rollout", **place),
                *job("g", "graded", "r", **place),
                *job("s", "score", "r", prm="qwen", **place),
            ]
        )
        transaction.load("trajectories", {"g": [paths["rollout"]]})
        transaction.load("rewards", {"s": [paths["score"]]})
        transaction.check_health()
    publish(writer)
    return health(writer.published, all_checks=all_checks)


def sampled(change: Callable[[int, int], Solution], questions: int = 20, samples: int = 4) -> list[Solution]:
    return [change(question, trajectory) for question in range(questions) for trajectory in range(samples)]


def good(question: int, trajectory: int) -> Solution:
    return solution(question, trajectory, reward=0.2 + 0.5 * (trajectory % 2) + 0.01 * trajectory)


def test_good_data_have_no_finding_and_every_check_is_stored(tmp_path: Path) -> None:
    assert findings(tmp_path, sampled(good)) == ()
    stored = health(tmp_path / "leaderboard.duckdb", all_checks=True)
    assert {each.check for each in stored} == {
        *("unread", "cut off", "single step", "all right", "all wrong", "equal answers", "undecided"),
        *("no bare question", "constant rewards", "ranking"),
    }
    ranking = next(each for each in stored if each.check == "ranking")
    assert ranking.value == 1.0
    assert ranking.low is not None and 0.5 < ranking.low < 1.0


def test_answers_that_were_not_read_come_before_all_numbers_with_two_examples(tmp_path: Path) -> None:
    def unread(question: int, trajectory: int) -> Solution:
        if question < 3:
            return good(question, trajectory) | {"answer": None, "verdict": "unparsed", "text": "So it is yajo."}
        return good(question, trajectory)

    first = findings(tmp_path, sampled(unread))[0]
    assert (first.check, first.severity, first.count, first.total) == ("unread", "misleading", 12, 80)
    assert json.loads(first.examples) == ["So it is yajo."]
    assert misleading([first]) == (first,)
    assert "12 of 80" in sentence(first)
    assert "So it is yajo." in sentence(first)


@pytest.mark.parametrize("reason", ["timed out", "unknown words", "ambiguous comma"])
def test_what_the_grader_did_not_decide_is_counted_by_its_reason(tmp_path: Path, reason: str) -> None:
    def undecided(question: int, trajectory: int) -> Solution:
        known = {} if question else {"answer": f"{5 + trajectory % 2} flurbs", "verdict": reason}
        return good(question, trajectory) | known

    (found,) = (each for each in findings(tmp_path, sampled(undecided)) if each.check == reason)
    assert (found.severity, found.count, found.total) == ("notable", 4, 80)
    assert 'They end like "5 flurbs" and "6 flurbs"' in sentence(found)


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("cut off", {"finish_reason": "length"}),
        ("cut off", {"finish_reason": "thought"}),
        ("single step", {"steps": 1}),
        ("equal answers", {"answer": "7"}),
    ],
)
def test_solutions_that_are_poor_data_are_notable(tmp_path: Path, check: str, change: Solution) -> None:
    found = findings(tmp_path, sampled(lambda *place: good(*place) | change))
    assert {each.check: each.severity for each in found}[check] == "notable"


@pytest.mark.parametrize(("verdict", "check"), [("correct", "all right"), ("incorrect", "all wrong")])
def test_questions_without_right_and_wrong_solutions_leave_nothing_to_rank(
    tmp_path: Path, verdict: str, check: str
) -> None:
    found = findings(tmp_path, sampled(lambda *place: good(*place) | {"verdict": verdict}))
    severities = {each.check: each.severity for each in found}
    assert severities["undecided"] == "misleading"
    assert severities[check] == "notable"
    assert "ranking" not in severities


def test_reversed_and_constant_rewards_are_misleading(tmp_path: Path) -> None:
    def reversed_rewards(question: int, trajectory: int) -> Solution:
        return solution(question, trajectory, reward=0.8 - 0.5 * (trajectory % 2))

    found = findings(tmp_path / "a", sampled(reversed_rewards))
    assert [(title(each), each.severity, each.value) for each in found] == [("Reversed rewards", "misleading", 0.0)]
    # All questions but one have a single reward, so nothing ties there.
    constant = sampled(lambda *place: solution(*place, reward=None if all(place) else 0.5))
    (tied,) = (each for each in findings(tmp_path / "b", constant) if each.check == "constant rewards")
    assert title(tied) == "Solutions tie" and tied.severity == "misleading"
    assert "equal rewards within 1 of 1 questions" in sentence(tied)


def test_rewards_without_the_bare_question_are_found(tmp_path: Path) -> None:
    found = findings(tmp_path, sampled(good), bare=None)
    assert [(each.check, each.count, each.total) for each in found] == [("no bare question", 20, 20)]


def test_areas_are_those_of_all_pairs() -> None:
    draw = np.random.default_rng(5)
    solutions = pd.DataFrame(
        {
            "job_key": "s",
            "question_id": np.repeat([f"q{i}" for i in range(30)], 6),
            "reward": draw.integers(0, 4, 180) / 4,  # with ties
            "correct": draw.random(180) < 0.4,
        }
    )
    found = areas_within(solutions)
    for question, own in solutions.groupby("question_id"):
        right, wrong = own.loc[own["correct"], "reward"], own.loc[~own["correct"], "reward"]
        if right.empty or wrong.empty:
            assert ("s", question) not in found
            continue
        pairs = [(r > w) + (r == w) / 2 for r in right for w in wrong]
        assert found["s", question] == pytest.approx(np.mean(pairs))
