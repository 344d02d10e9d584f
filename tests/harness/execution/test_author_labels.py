"""Runs with labels as the authors of the paper made them, and with a PRM that ranks otherwise than it calibrates."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.registry.reading.records import read_records
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import grid
from tests.one_process import run_here

CALIBRATION = {"name": "synthetic-questions", "questions": 20, "trajectories": 4, "follow_ups": 4}
VALUES = ("accuracy", "accuracy_low", "accuracy_high", "samples", "budget_ratio")
MEASUREMENT = {"measured": 4, "follow_ups": 4, "replicates": 100}


def test_answered_completions_are_kept_first_and_only_the_first_prefixes_are_followed_up(
    tmp_path: Path, prmcal: Prmcal
) -> None:
    path = grid(
        tmp_path,
        llms=[{"name": "thinker", "plugin": "thinking-llm", "arguments": {"cut_off": 0.4}}],
        calibrators=["isotonic"],
        calibration={**CALIBRATION, "prefer_answered": 1.5},
        measurement={**MEASUREMENT, "first_prefixes": 2, "prefer_answered": 1.5},
        scaling={"samples": 8, "targets": [0.9]},
        strategies=["pass@1"],
    )
    assert run_here(path, tmp_path / "out").failed_cells == 0
    done = prmcal("export", tmp_path / "out", "--success-rates", tmp_path / "success.jsonl")
    assert done.returncode == 0, done.stderr
    whole: dict[str, dict[int, str]] = defaultdict(dict)
    measured: dict[tuple[str, int], list[int]] = defaultdict(list)
    for _, row in read_records(tmp_path / "success.jsonl"):
        if row["split"] == "calibration":
            whole[row["question_id"]][row["trajectory"]] = row["reasoning_prefix"]  # The longest is last.
        else:
            measured[row["question_id"], row["trajectory"]].append(row["step"])
    answered = [["</think>" in text for text in of_question.values()] for of_question in whole.values()]
    assert all(each == sorted(each, reverse=True) for each in answered)  # Those with an answer are first.
    flat = [each for of_question in answered for each in of_question]
    assert len(flat) == 20 * 4 and 0.75 < sum(flat) / len(flat) < 1  # Of all that are drawn, .6 have one.
    assert {tuple(steps) for steps in measured.values()} == {(0, 1)}
    # The samples of strategies are not chosen.
    pool = json.loads(render_leaderboard(tmp_path / "out", "scaling", "json"))
    assert pool[0]["accuracy"] < 0.6


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, Any]]]:
    """The cells of three runs: with one PRM, with another, and calibrated with the first and ranked with the second."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, own in {
        "first": {"arguments": {"skill": 0.95}},
        "second": {"arguments": {"skill": 0.6}},
        "both": {"arguments": {"skill": 0.95}, "ranking": {"skill": 0.6}},
    }.items():
        folder = tmp_path_factory.mktemp(name)
        path = grid(
            folder,
            prms=[{"name": "verifier", "plugin": "synthetic-prm", **own}],
            datasets=[{"name": "synthetic-questions", "questions": 10}],
            calibration=CALIBRATION | {"questions": 10, "trajectories": 2},
            measurement=MEASUREMENT | {"measured": 2},
            scaling={"samples": 8, "targets": [0.9]},
            strategies=[
                "best-of-n",
                "best-of-n + IAS",
                {"name": "beam search", "arguments": {"width": 2, "expansions": 2}},
            ],
        )
        assert run_here(path, folder / "out").failed_cells == 0
        found[name] = {}
        for table in ("calibration", "scaling"):
            listed = json.loads(render_leaderboard(folder / "out", table, "json"))
            found[name] |= {each["cell_id"]: each for each in listed}
    return found


def test_calibration_is_that_of_the_arguments(runs: dict[str, dict[str, dict[str, Any]]]) -> None:
    cells = [cell for cell in runs["both"] if cell.startswith("calibration/")]
    assert len(cells) == 2
    for cell in cells:
        assert runs["both"][cell] == runs["first"][cell] != runs["second"][cell]


def test_solutions_are_ranked_with_the_arguments_for_ranking(
    runs: dict[str, dict[str, dict[str, Any]]],
) -> None:
    assert {row["status"] for row in runs["both"].values()} == {"done"}
    cells = [cell for cell in runs["both"] if "scaling/" in cell and "isotonic" not in cell]
    assert len(cells) == 3
    # Letters and standings also depend on the other cells.
    values = {name: {cell: [rows[cell][each] for each in VALUES] for cell in cells} for name, rows in runs.items()}
    assert values["both"] == values["second"]
    changed = [cell for cell in cells if values["second"][cell] != values["first"][cell]]
    assert any("+ias" in cell for cell in changed)
    # A fit to the scores of the first is applied to those of the second.
    (ias,) = (cell for cell in runs["both"] if "+ias" in cell and "isotonic" in cell)
    assert runs["both"][ias]["samples"] > runs["second"][ias]["samples"]
