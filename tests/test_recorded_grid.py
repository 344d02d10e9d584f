"""The shipped grid `recorded`: recorded solutions and rewards of MATH problems, 8 solutions each."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prmcal.db.queries.leaderboard import leaderboard
from prmcal.registry.plugins import datasets
from tests.conftest import ROOT, Prmcal

RECORDING = ROOT / "tests" / "recorded" / "math_cot_100_8samples.jsonl"
CALIBRATORS = {"uncalibrated", "temperature", "isotonic", "histogram", "conformal-isotonic"}


@pytest.fixture(scope="module")
def finished(prmcal: Prmcal, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of the shipped grid, in which the path of the recording is replaced."""
    folder = tmp_path_factory.mktemp("recorded")
    grid = (ROOT / "grids" / "recorded.yaml").read_text()
    assert "path: math_cot_100.jsonl" in grid
    grid = grid.replace("path: math_cot_100.jsonl", f"path: {RECORDING}").replace("2000}", "200}")
    (folder / "grid.yaml").write_text(grid)
    done = prmcal("run", folder / "grid.yaml", "--out", folder / "out", "--workers", 1)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def records() -> dict[str, dict[str, list[float]]]:
    """For the text of each question: the recorded logits and verdicts of its solutions."""
    lines = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    found = {}
    for line in lines:
        first: dict[str, float] = {}  # Solutions with the same text have one score: that of the first.
        for text, (logit,) in zip(line["response"], line["pred_score"], strict=True):
            first.setdefault(text, logit)
        # The recording has wrong verdicts: on 10000 for 10{,}000, and 4:30 \\text{ p.m.} for \\text{4:30 p.m.}
        known = line["answer"] in ("10{,}000", "\\text{4:30 p.m.}")
        right = [1.0] * 8 if known else [float(each) for each in line["score"]]
        found[line["question"]] = {"logits": [first[text] for text in line["response"]], "right": right}
    return found


def table(folder: Path, name: str) -> pd.DataFrame:
    found = leaderboard(folder / "leaderboard.duckdb", name)  # type: ignore[arg-type]
    assert set(found["status"]) == {"done"}
    return found


def best_of(n: int, logits: list[float], right: list[float]) -> float:
    """The probability that best-of-n is right: the mean over all subsets of n solutions, with ties shared."""
    chosen = []
    for subset in itertools.combinations(range(len(logits)), n):
        top = max(logits[index] for index in subset)
        chosen.append(np.mean([right[index] for index in subset if logits[index] == top]))
    return float(np.mean(chosen))


def test_the_shipped_grid_reads_the_recording_in_the_current_folder(tmp_path: Path, prmcal: Prmcal) -> None:
    (tmp_path / "math_cot_100.jsonl").symlink_to(RECORDING)
    planned = prmcal("plan", "recorded", folder=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "25 cells" in planned.stdout


def test_every_cell_is_filled(finished: Path) -> None:
    calibration, scaling = table(finished, "calibration"), table(finished, "scaling")
    assert set(calibration["calibrator"]) == CALIBRATORS
    assert len(scaling) == 14


@pytest.mark.parametrize("n", range(1, 9))
def test_best_of_n_is_that_of_the_recorded_rewards(finished: Path, n: int) -> None:
    dataset = datasets.create("jsonl", path=str(RECORDING), calibration_share=0.5)
    recorded = records()
    expected = np.mean([best_of(n, **recorded[each.text]) for each in dataset.questions("test")])
    scaling = table(finished, "scaling").set_index("strategy")
    assert scaling.loc[f"best-of-{n}", "accuracy"] == pytest.approx(expected, abs=1e-12)
    assert scaling.loc["pass@1", "accuracy"] <= scaling.loc[f"best-of-{n}", "accuracy"] + 1e-12


def test_calibration_is_measured_on_whole_solutions(finished: Path) -> None:
    dataset = datasets.create("jsonl", path=str(RECORDING), calibration_share=0.5)
    recorded = [records()[each.text] for each in dataset.questions("test")]
    logits, right = (np.concatenate([each[name] for each in recorded]) for name in ("logits", "right"))
    cells = table(finished, "calibration").set_index("calibrator")
    assert set(cells["rows"]) == {len(logits)}
    brier = np.mean((1 / (1 + np.exp(-logits)) - right) ** 2)
    assert cells.loc["uncalibrated", "brier"] == pytest.approx(brier, abs=1e-6)


def test_calibrated_on_other_questions_than_tested_on() -> None:
    dataset = datasets.create("jsonl", path=str(RECORDING), calibration_share=0.5)
    fitted, tested = ({each.text for each in dataset.questions(split)} for split in dataset.splits)
    assert fitted.isdisjoint(tested)
    assert len(fitted | tested) == 20
    assert 5 < len(fitted) < 15
