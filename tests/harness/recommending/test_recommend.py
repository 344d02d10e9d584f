"""``prmcal recommend`` on a small run: what it chooses by, what it reports, and how it tells it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import prmcal as face
from prmcal.db.queries.cells import find_cell
from prmcal.errors import PrmcalError, RunError
from prmcal.harness.cli.recommend import recommendation_text
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.recommending.recommend import recommend, wanted_of
from prmcal.harness.recommending.types import Recommendation, ask_command, recommendation_frame
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.strategies.best_of import best_of_n
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import grid, run_arguments

TEST, POOL, KNOWN, QUESTIONS = 24, 16, 4, 20
STRATEGIES = ["pass@1", "best-of-n", "best-of-n + IAS", "posterior vote", "oracle IAS"]
SOME = {"strategy": ["best-of-n", "best-of-n + IAS", "posterior vote"]}  # All of them would take longer.
ONLY = [option for name in SOME["strategy"] for option in ("--strategy", name)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> Path:
    folder = tmp_path_factory.mktemp("recommend")
    path = grid(
        folder,
        strategies=STRATEGIES,
        scaling={"samples": POOL, "targets": [0.9]},
        calibration={
            "name": "synthetic-questions",
            "questions": QUESTIONS,
            "trajectories": KNOWN,
            "follow_ups": 4,
        },
        datasets=[{"name": "synthetic-questions", "questions": TEST}],
    )
    done = prmcal(*run_arguments(path, folder / "out"))
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.fixture(scope="module")
def found(folder: Path) -> Recommendation:
    return recommend(folder, wanted_of(None, 3, None), filters=SOME)


def rollouts(folder: Path, split: str) -> list[ArtifactRef]:
    jobs = existing_plan(RunFolder(folder)).jobs
    return [ref for job in jobs if job.kind == "rollout" and job.labels.split == split for ref in job.refs]


def trajectories(folder: Path, split: str) -> pd.DataFrame:
    store = Store(folder)
    tables = [store.read(ref, "trajectories").to_pandas() for ref in rollouts(folder, split)]
    return pd.concat(tables, ignore_index=True)


def flipped(folder: Path, copy: Path, split: str) -> Path:
    """A copy of a run in which wrong answers of a split are right, and right ones wrong."""
    shutil.copytree(folder, copy)
    store = Store(copy)
    for ref in rollouts(copy, split):
        manifest = store.manifest(ref)
        assert manifest is not None
        table = store.read(ref, "trajectories").to_pandas()
        table["correct"] = ~table["correct"]

        def fill(target: Path, table: pd.DataFrame = table) -> None:
            parquet.write_table(pa.Table.from_pandas(table), target / "trajectories.parquet")

        store.write(ref, fill, {"seconds": manifest.seconds, "size": manifest.size})
    return copy


def test_it_reports_the_exact_accuracy_of_its_choice_on_the_test_questions(
    folder: Path, found: Recommendation
) -> None:
    """Best-of-n in closed form, from the stored trajectories and scores."""
    table = trajectories(folder, "test").sort_values(["question_id", "trajectory"])
    correct = table["correct"].to_numpy(bool).reshape(TEST, POOL)
    plan = existing_plan(RunFolder(folder))
    scores = [
        Store(folder).read(ref, "rewards").to_pandas()
        for job in plan.jobs
        if job.kind == "score" and job.labels.split == "test"
        for ref in job.refs
    ]
    last = (
        pd.concat(scores).sort_values("step").drop_duplicates(["question_id", "trajectory"], keep="last")
    ).sort_values(["question_id", "trajectory"])
    logits = last["logit"].to_numpy(np.float64).reshape(TEST, POOL)
    (test,) = found.fixed.tests
    assert found.fixed.choice.samples == 3
    assert test.accuracy.value == pytest.approx(best_of_n(logits, correct, np.array([3])).mean())
    assert test.to_pass_at_1 is not None
    assert test.to_pass_at_1.value == pytest.approx(test.accuracy.value - correct.mean())
    assert test.questions == TEST
    assert test.accuracy.low <= test.accuracy.value <= test.accuracy.high


def test_the_choice_does_not_depend_on_the_test_questions(
    folder: Path, found: Recommendation, tmp_path: Path
) -> None:
    other = recommend(flipped(folder, tmp_path / "copy", "test"), wanted_of(None, 3, None), filters=SOME)
    lines, others = ([each.recommended, each.fixed, *each.others] for each in (found, other))
    assert [line.choice for line in lines] == [line.choice for line in others]
    assert [line.known for line in lines] == [line.known for line in others]
    assert other.recommended.tests[0].accuracy != found.recommended.tests[0].accuracy


def test_a_budget_is_kept_on_the_calibration_questions(found: Recommendation, folder: Path) -> None:
    for line in (found.recommended, found.fixed, *found.others):
        assert line.known.samples.value <= 3 + 1e-9
    assert found.recommended.known.accuracy.value == max(
        line.known.accuracy.value for line in (found.recommended, *found.others)
    )
    tokens = recommend(folder, wanted_of(None, None, 40), filters=SOME).recommended.known.tokens
    assert tokens is not None and tokens.value <= 40


def test_the_cheapest_choice_with_an_accuracy_is_recommended(folder: Path) -> None:
    found = recommend(folder, wanted_of(0.5, None, None), filters=SOME)
    sure = found.recommended.known
    assert found.reached and sure.accuracy.value - sure.accuracy_error >= 0.5
    for other in found.others:
        reached = other.known.accuracy.value - other.known.accuracy_error >= 0.5
        assert not reached or other.known.samples.value >= sure.samples.value


def test_the_safe_choice_is_recommended_unless_strategies_are_named(folder: Path) -> None:
    found = recommend(folder, wanted_of(None, 3, None), filters={})
    assert found.recommended.choice.strategy == "safe choice"
    assert {line.choice.strategy for line in found.others} > {"posterior vote"}
    (test,) = found.recommended.tests
    shown = " ".join(recommendation_text(found, folder, 100).split())
    nothing = "Nothing is surely better than one sample, by the calibration questions" in shown
    assert (
        nothing
        == (test.rule == "one sample")
        != (f"It uses '{test.rule}'. With a probability of 90%" in shown)
    )
    better = recommend(folder, wanted_of(0.7, None, None), filters={})
    # One that does not reach the accuracy is not recommended.
    assert better.reached and better.recommended.known.accuracy.value >= 0.7


def test_an_accuracy_out_of_reach_gives_the_best_choice_and_says_so(folder: Path) -> None:
    found = recommend(folder, wanted_of(0.9999, None, None), filters=SOME)
    shown = " ".join(recommendation_text(found, folder, 100).split())
    assert not found.reached
    assert shown.startswith("An accuracy of 0.9999 is out of reach on the calibration questions.")
    assert f"add --draw {POOL}" in shown


def test_larger_budgets_need_more_trajectories(folder: Path) -> None:
    found = recommend(folder, wanted_of(None, 8, None), filters=SOME)
    assert found.trajectories == KNOWN
    assert found.recommended.choice.samples <= KNOWN
    assert found.more == 8


def test_the_terminal_shows_the_choice_its_results_and_the_command(
    folder: Path, found: Recommendation
) -> None:
    shown = recommendation_text(found, folder, 100)
    assert max(len(line) for line in shown.splitlines() if "prmcal ask" not in line) <= 100
    choice = found.recommended.choice
    first = " ".join(shown.split("\n\n")[0].split())
    assert first.startswith(f"For at most 3 samples per question, use {choice.strategy} ({choice.setting})")
    assert f"  {ask_command(found.recommended, folder)}\n" in shown
    assert "20 calibration questions" in " ".join(shown.split())


def test_files_have_a_row_for_each_choice_and_data_set(
    folder: Path, found: Recommendation, prmcal: Prmcal
) -> None:
    done = prmcal("recommend", folder, *ONLY, "--samples", 3, "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["role"] for row in rows[:2]] == ["recommended", "fixed"]
    assert len(rows) == 2 + len(found.others)
    assert rows[0]["accuracy"] == found.recommended.tests[0].accuracy.value
    assert list(recommendation_frame(found, folder)) == list(rows[0])


def test_the_notebook_returns_the_same(folder: Path, found: Recommendation) -> None:
    assert asdict(face.open_run(folder).recommend(samples=3, strategy=SOME["strategy"])) == asdict(found)


def test_filters_keep_names(folder: Path) -> None:
    chosen: dict[str, Any] = {"calibrator": ["isotonic"], "strategy": ["best-of-n + IAS"]}
    found = recommend(folder, wanted_of(None, 3, None), filters=chosen)
    assert found.recommended.choice.calibrator == "isotonic"
    cell = find_cell(RunFolder(folder).results(), str(found.recommended.number))
    assert cell == found.recommended.cell == "calibration/weak/verifier/isotonic/synthetic-questions"
    assert ask_command(found.recommended, folder).startswith(
        f"prmcal ask {folder} QUESTION --cell {found.recommended.number} --strategy 'best-of-n + IAS' --target 0."
    )
    assert "QUESTION --llm weak --prm verifier --strategy best-of-n --max-samples 3" in ask_command(
        found.fixed, folder
    )
    assert found.fixed.choice.strategy == "best-of-n"
    assert not found.others


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "exactly one of --accuracy, --samples and --tokens"),
        ({"samples": 4, "tokens": 9}, "exactly one of --accuracy, --samples and --tokens"),
        ({"accuracy": 1.5}, "--accuracy must be a number between 0 and 1, such as 0.9. Got 1.5."),
        ({"samples": 0.5}, "--samples must be a number of at least 1. Got 0.5."),
        (
            {"tokens": 2, **SOME},
            "No choice costs at most 2 generated tokens per question. The cheapest costs",
        ),
        ({"samples": 4, "llm": "weka"}, "The grid has no llm 'weka'. Did you mean 'weak'?"),
        ({"samples": 4, "strategy": "best of n"}, "best-of-n"),
        ({"samples": 4, "strategy": "oracle IAS"}, "'oracle IAS' cannot be recommended"),
        ({"samples": 4, "draw": 99}, "--draw must be at most 16"),
    ],
)
def test_bad_input_is_one_clear_error(folder: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(PrmcalError) as raised:
        face.open_run(folder).recommend(**given)
    assert message in str(raised.value)


def test_errors_of_the_command_are_one_line(folder: Path, prmcal: Prmcal) -> None:
    done = prmcal("recommend", folder, "--samples", 4, "--llm", "weka")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "--format must be one of" in prmcal("recommend", folder, "--samples", 3, "--format", "xml").stderr


def test_a_run_without_calibration_scores_cannot_recommend(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shutil.rmtree(copy / "artifacts" / "score")
    with pytest.raises(RunError, match="Run the grid to its end"):
        recommend(copy, wanted_of(None, 3, None), filters=SOME)
    with pytest.raises(PrmcalError, match="No grid was run"):
        recommend(tmp_path / "absent", wanted_of(None, 3, None), filters=SOME)
