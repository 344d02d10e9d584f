"""Whole runs with broken plugins: each fails its own cells only, with a reason and what to do."""

from __future__ import annotations

import json
from pathlib import Path

from prmcal.harness.cli.exit_codes import ExitCode
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import grid, run_arguments


def test_broken_prms_fail_their_cells_only(tmp_path: Path, prmcal: Prmcal) -> None:
    messages = {
        "raises": "The prm 'raises' failed to score: RuntimeError: out of luck",
        "NaN": "The prm 'NaN' failed to score: it returned NaN for a prefix",
        "above-1": "The prm 'above-1' failed to score: it returned the reward [1.5], outside [0, 1]",
        "wrong-shape": "The prm 'wrong-shape' failed to score: it returned",
    }
    bad = [
        {"name": flaw, "plugin": "synthetic-prm", "arguments": {"flaw": flaw.replace("-", " ")}}
        for flaw in messages
    ]
    path = grid(
        tmp_path, prms=[{"name": "good", "plugin": "synthetic-prm"}, *bad], calibrators=["uncalibrated"]
    )
    done = prmcal(*run_arguments(path, tmp_path / "out", workers=2))
    said = " ".join(done.stderr.split())
    assert done.returncode == ExitCode.FAILED_CELLS
    assert "Traceback" not in done.stderr
    rows = json.loads(
        prmcal("leaderboard", tmp_path / "out", "--table", "calibration", "--format", "json").stdout
    )
    assert {row["prm"]: row["status"] for row in rows} == {"good": "done"} | dict.fromkeys(messages, "failed")
    assert all(row["brier"] is not None for row in rows if row["prm"] == "good")
    scaling = [
        row["prm"]
        for row in json.loads(
            prmcal("leaderboard", tmp_path / "out", "--table", "scaling", "--format", "json").stdout
        )
    ]
    for prm, message in messages.items():
        (reason,) = {row["reason"] for row in rows if row["prm"] == prm}
        assert reason.startswith(message)
        cells = sum(row["prm"] == prm for row in rows) + scaling.count(prm)
        assert f"prmcal: error: {cells} cells failed: {reason}" in said
    assert said.count("prmcal: error:") == len(messages)
    advice = f"What to do: The traceback is in {tmp_path / 'out' / 'run.log'}. Correct the plugin"
    assert "".join(advice.split()) in "".join(said.split())  # A path that is longer than a line is broken.
    log = (tmp_path / "out" / "run.log").read_text()
    assert "RuntimeError: out of luck" in log
    assert "Traceback (most recent call last)" in log
    assert len(done.stderr.splitlines()) < 60


def test_broken_calibrators_fail_their_cells_only(tmp_path: Path, prmcal: Prmcal) -> None:
    messages = {
        "raises": "The calibrator 'raises' failed to fit: ZeroDivisionError: no slope",
        "NaN": "The calibrator 'NaN' failed to predict: it returned NaN",
        "wrong-shape": "The calibrator 'wrong-shape' failed to predict: it returned the shape",
        "above-1": "The calibrator 'above-1' failed to predict: it returned the reward",
    }
    bad = [
        {"name": flaw, "plugin": "broken", "arguments": {"flaw": flaw.replace("-", " ")}} for flaw in messages
    ]
    out = tmp_path / "out"
    done = prmcal(*run_arguments(grid(tmp_path, calibrators=["uncalibrated", *bad]), out))
    assert done.returncode == ExitCode.FAILED_CELLS
    rows = json.loads(prmcal("leaderboard", out, "--table", "calibration", "--format", "json").stdout)
    found = {row["calibrator"]: row["status"] for row in rows}
    assert found == {"uncalibrated": "done"} | dict.fromkeys(messages, "failed")
    state = prmcal("status", out)
    assert state.returncode == ExitCode.FAILED_CELLS
    told = json.loads(prmcal("status", out, "--format", "json").stdout)
    assert told["state"] == "failed"
    assert told["cells"]["failed"] == sum(len(each["cells"]) for each in told["failures"])
    assert told["cells"]["done"] + told["cells"]["failed"] == told["cells"]["total"]
    assert {each["cause"] for each in told["failures"]} == {"plugin"}
    for message in messages.values():
        assert f"failed: {message}" in " ".join(done.stderr.split())
        assert message in " ".join(state.stdout.split())
        assert any(each["reason"].startswith(message) for each in told["failures"])


BROKEN_STRATEGY = """
import numpy as np
from prmcal import Answered, PoolStrategy, strategy

@strategy("too good")
class TooGood(PoolStrategy):
    def answer(self, pool, setting):
        return Answered(np.full(pool.questions, 1.5), np.ones(pool.questions))
"""


def test_a_broken_strategy_fails_its_cells_only(tmp_path: Path, prmcal: Prmcal) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(BROKEN_STRATEGY)
    out = tmp_path / "out"
    path = grid(tmp_path, calibrators=["uncalibrated"], strategies=["pass@1", "too good"])
    done = prmcal(*run_arguments(path, out), "--plugin", mine)
    assert done.returncode == ExitCode.FAILED_CELLS
    assert (
        "The strategy 'too good' failed to answer: its 'accuracy' contains [1.5], outside [0, 1]"
        in " ".join(done.stderr.split())
    )
    rows = json.loads(prmcal("leaderboard", out, "--table", "scaling", "--format", "json").stdout)
    assert {row["strategy"]: row["status"] for row in rows} == {"pass@1": "done", "too good": "failed"}
