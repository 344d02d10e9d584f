"""A run with an LLM that thinks, and with a limit of the prefixes that are followed up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pandas as pd
import pytest

import prmcal as library
from prmcal.harness.cli.cells import render_cell
from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import grid, run_arguments


@pytest.fixture(scope="module")
def thought(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of a run, and what the run said."""
    folder = tmp_path_factory.mktemp("thought")
    path = grid(
        folder,
        llms=[
            {"name": "paragraphs", "plugin": "thinking-llm"},
            {
                **{"name": "whole", "plugin": "thinking-llm"},
                **{"arguments": {"splitting": "after-think", "cut_off": 0.6}},
            },
        ],
        calibrators=["isotonic"],
        datasets=[{"name": "long", "plugin": "synthetic-questions", "arguments": {"longest": 9}, "questions": 12}],
        calibration={
            **{"name": "synthetic-questions", "questions": 20, "trajectories": 4},
            **{"follow_ups": 4, "most_prefixes": 4},
        },
        measurement={"measured": 4, "follow_ups": 4, "most_prefixes": 3, "replicates": 100},
        strategies=["best-of-n"],
        scaling={"samples": 8, "targets": [0.9]},
    )
    done = prmcal(*run_arguments(path, folder / "out", workers=1, quiet=False))
    assert done.returncode == 0, done.stderr
    return folder / "out", done


def trajectories(out: Path, llm: str) -> pd.DataFrame:
    return library.open_run(out).trajectories(f"calibration/{llm}/verifier/isotonic/long")


def test_cut_off_thoughts_have_no_answer_and_are_told(
    thought: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    out, done = thought
    found = trajectories(out, "paragraphs")
    cut_off = found[found["finish_reason"] == "thought"]
    assert 0.1 < len(cut_off) / len(found) < 0.3
    assert cut_off["text"].str.contains("boxed").all()
    assert (cut_off["verdict"] == "unparsed").all() and cut_off["answer"].isna().all()
    assert found["text"].str.startswith("<think>\n").all()
    assert "answers not read" in " ".join(done.stderr.split())
    explained = " ".join(render_leaderboard(out, explain=True).split())
    assert "Answers not read" in explained
    assert "Raise 'sampling.max_tokens' in the grid file." in explained
    shown = render_cell(out, "calibration/whole/verifier/isotonic/long", 120)
    assert "(unparsed, cut off inside its thought)" in shown


def test_a_whole_thought_is_one_step(thought: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    out, _ = thought
    found = trajectories(out, "whole")
    ended = found["finish_reason"] == "end"
    assert set(found.loc[ended, "steps"]) == {2} and set(found.loc[~ended, "steps"]) == {1}
    assert set(trajectories(out, "paragraphs")["steps"]) > {2, 5}


def test_only_chosen_prefixes_have_success_rates_and_only_these_are_measured(
    thought: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    out, _ = thought
    run = library.open_run(out)
    cell = "calibration/paragraphs/verifier/isotonic/long"
    question = trajectories(out, "paragraphs").sort_values("steps")["question_id"].iloc[-1]
    prefixes = run.prefixes(cell, question)
    steps = trajectories(out, "paragraphs").set_index(["question_id", "trajectory"])["steps"]
    followed = prefixes[prefixes["follow_ups"].notna()]
    for trajectory in range(4):
        last = steps[question, trajectory]
        expected = range(last + 1) if last < 3 else (0, (last + 1) // 2, last)
        assert list(followed.loc[followed["trajectory"] == trajectory, "step"]) == list(expected)
        # All prefixes are scored and have calibrated rewards.
        own = prefixes[prefixes["trajectory"] == trajectory]
        assert list(own["step"]) == list(range(last + 1)) and own["calibrated_reward"].notna().all()
    board = run.leaderboard("calibration").set_index(["llm", "calibrator"])
    rows = board.loc[("paragraphs", "isotonic"), "rows"]
    assert 12 * 4 * 1 < rows <= 12 * 4 * 3
