"""Whole runs with broken plugins: each fails its own cells only, with a reason and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import grid, run_arguments

FEW_QUESTIONS = {"name": "synthetic-questions", "questions": 8}


def small_grid(folder: Path, **changes: Any) -> Path:
    """A grid of one strategy."""
    return grid(folder, **{"strategies": ["pass@1"], **changes})


BROKEN_STRATEGY = """
import numpy as np
from prmcal import Answered, PoolStrategy, strategy

@strategy("too good")
class TooGood(PoolStrategy):
    def answer(self, pool, allowance):
        return Answered(np.full(pool.questions, 1.5), np.ones(pool.questions))
"""


def test_broken_prms_and_strategies_fail_their_cells_only(tmp_path: Path, prmcal: Prmcal) -> None:
    messages = {
        "raises": "The prm 'raises' failed to score: RuntimeError: out of luck",
        "NaN": "The prm 'NaN' failed to score: it returned NaN for a prefix",
        "above-1": "The prm 'above-1' failed to score: it returned the reward [1.5], outside [0, 1]",
        "wrong-shape": "The prm 'wrong-shape' failed to score: it returned",
    }
    bad = [
        {"name": flaw, "plugin": "synthetic-prm", "arguments": {"flaw": flaw.replace("-", " ")}} for flaw in messages
    ]
    prms, strategies = [{"name": "good", "plugin": "synthetic-prm"}, *bad], ["pass@1", "best-of-n", "too good"]
    (tmp_path / "mine.py").write_text(BROKEN_STRATEGY)
    path = small_grid(tmp_path, prms=prms, calibrators=["uncalibrated"], strategies=strategies)
    done = prmcal(*run_arguments(path, tmp_path / "out"), "--plugin", tmp_path / "mine.py")
    said = " ".join(done.stderr.split())
    assert done.returncode == ExitCode.FAILED_CELLS
    assert "Traceback" not in done.stderr
    rows = json.loads(render_leaderboard(tmp_path / "out", "calibration", "json"))
    assert {row["prm"]: row["status"] for row in rows} == {"good": "done"} | dict.fromkeys(messages, "failed")
    assert all(row["brier"] is not None for row in rows if row["prm"] == "good")
    answered = json.loads(render_leaderboard(tmp_path / "out", "scaling", "json"))
    statuses = {row["strategy"]: row["status"] for row in answered if row["prm"] in (None, "good")}
    assert statuses == {"pass@1": "done", "best-of-n": "done", "too good": "failed"}
    assert "The strategy 'too good' failed to answer: its 'accuracy' contains [1.5], outside [0, 1]" in said
    scaling = [row["prm"] for row in answered]
    for prm, message in messages.items():
        (reason,) = {row["reason"] for row in rows if row["prm"] == prm}
        assert reason.startswith(message)
        cells = sum(row["prm"] == prm for row in rows) + scaling.count(prm)
        assert f"prmcal: error: {cells} cells failed: {reason}" in said
    assert said.count("prmcal: error:") == len(messages) + 1
    advice = f"What to do: The traceback is in {tmp_path / 'out' / 'run.log'}. Correct the plugin"
    assert "".join(advice.split()) in "".join(said.split())  # A path that is longer than a line is broken.
    log = (tmp_path / "out" / "run.log").read_text()
    assert "RuntimeError: out of luck" in log
    assert "Traceback (most recent call last)" in log
    assert len(done.stderr.splitlines()) < 60


CARELESS = """
from dataclasses import replace
import prmcal
from prmcal.registry.plugins import datasets, llms

class Careless:
    def __init__(self, how: str) -> None:
        self.how = how

@prmcal.llm("careless")
class CarelessLLM(Careless, prmcal.LLM):
    def generate(self, prefixes, n, sampling, seed):
        drawn = llms.create("synthetic-llm").generate(prefixes, n, sampling, seed)
        changes = {
            "surrogate": {"text": "half \\ud800"},
            "tokens": {"tokens": 2**31},
            "no-reason": {"finish_reason": None},
        }
        return [[replace(each, **changes[self.how]) for each in of_prefix] for of_prefix in drawn]

@prmcal.dataset("careless")
class CarelessData(Careless, prmcal.Dataset):
    splits = ("calibration", "test")

    def questions(self, split, count=None):
        if self.how == "twice":
            return [prmcal.Question("1", "1+1?", "2"), prmcal.Question("1", "1+2?", "3")]
        if self.how == "number":
            return [prmcal.Question("1", "1+1?", 2)]
        known = datasets.create("synthetic-questions").questions(split, 4)
        return [replace(each, text="again " + each.text) for each in known]

    def grade(self, question, trajectory):
        return None, None
"""


def test_llms_and_data_sets_that_return_what_cannot_be_stored(tmp_path: Path, prmcal: Prmcal) -> None:
    messages = {
        "surrogate": "The llm 'surrogate' failed to generate: UnicodeEncodeError: 'utf-8' codec can't encode",
        "tokens": "The llm 'tokens' failed to generate: it must return token counts in [0, 2147483647]",
        "no-reason": "The llm 'no-reason' failed to generate: its finish reason must be end, stop, length, thought",
        "graded": "The dataset 'graded' failed to grade: it must return a verdict",
    }
    (tmp_path / "mine.py").write_text(CARELESS)
    llms = [{"name": how, "plugin": "careless", "arguments": {"how": how}} for how in messages if how != "graded"]
    graded = {"name": "graded", "plugin": "careless", "arguments": {"how": "graded"}}
    path = small_grid(
        tmp_path,
        llms=[{"name": "good", "plugin": "synthetic-llm"}, *llms],
        calibrators=["uncalibrated"],
        datasets=[FEW_QUESTIONS, graded],
    )
    arguments = [*run_arguments(path, tmp_path / "out"), "--plugin", tmp_path / "mine.py"]
    done = prmcal(*arguments)
    assert done.returncode == ExitCode.FAILED_CELLS, done.stderr
    rows = json.loads(render_leaderboard(tmp_path / "out", "calibration", "json"))
    for row in rows:
        how = row["llm"] if row["llm"] in messages else row["dataset"]
        assert (row["reason"] or "").startswith(messages.get(how, ""))
        assert (row["status"] == "done") == (how not in messages)
    for how, message in {"twice": "two questions with the same id", "number": "are strings"}.items():
        path = grid(tmp_path, datasets=[{"name": "bad", "plugin": "careless", "arguments": {"how": how}}])
        refused = prmcal("plan", path, *arguments[-4:])
        assert refused.returncode == ExitCode.BAD_INPUT
        assert "The dataset 'bad' failed to give its questions: " in refused.stderr
        assert message in refused.stderr


BROKEN_CALIBRATOR = """
import sys
from pathlib import Path
import numpy as np
from prmcal import Calibrator, calibrator

@calibrator("careless")
class Careless(Calibrator):
    def __init__(self, how: str) -> None:
        self.how = how

    def fit(self, features, k, n):
        match self.how:
            case "full-elsewhere":
                Path("/dev/full").write_text("x")
            case "exits":
                sys.exit(3)
            case "long":
                raise ValueError("x" * 100_000 + "the end")
            case "unprintable":
                raise ValueError("half \\ud800, \\x1b[31mred\\x1b[0m, \\x00 and\\nlines")
        self.fitted_ = 1.0
        return self

    def predict(self, features):
        return np.full((len(features), 1), 0.5)

    def save(self, folder):
        super().save(folder)
        match self.how:
            case "no-save":
                Path("/no/such/file").open()
            case "full":
                Path("/dev/full").write_text("x")
"""


def test_broken_and_careless_calibrators_fail_their_cells_only(tmp_path: Path, prmcal: Prmcal) -> None:
    flaws = {
        "raises": "failed to fit: ZeroDivisionError: no slope",
        "NaN": "failed to predict: it returned NaN",
        "wrong-shape": "failed to predict: it returned the shape",
        "above-1": "failed to predict: it returned the reward",
    }
    hows = {
        "full-elsewhere": "failed to fit: OSError: [Errno 28] No space left on device",
        "exits": "failed to fit: SystemExit: 3",
        "long": f"failed to fit: ValueError: {'x' * 500}",
        "unprintable": "failed to fit: ValueError: half \\ud800, \\x1b[31mred\\x1b[0m, \\x00 and lines",
        "no-save": "failed to save: FileNotFoundError: [Errno 2] No such file or directory: '/no/such/file'",
    }
    (tmp_path / "mine.py").write_text(BROKEN_CALIBRATOR)
    bad = [{"name": flaw, "plugin": "broken", "arguments": {"flaw": flaw.replace("-", " ")}} for flaw in flaws]
    bad += [{"name": how, "plugin": "careless", "arguments": {"how": how}} for how in hows]
    out = tmp_path / "out"
    path = small_grid(tmp_path, calibrators=["uncalibrated", *bad])
    done = prmcal(*run_arguments(path, out), "--plugin", tmp_path / "mine.py")
    assert done.returncode == ExitCode.FAILED_CELLS
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    rows = json.loads(render_leaderboard(out, "calibration", "json"))
    reasons = {row["calibrator"]: row["reason"] for row in rows}
    assert reasons.pop("uncalibrated") is None
    state = prmcal("status", out)
    assert state.returncode == ExitCode.FAILED_CELLS
    told = json.loads(prmcal("status", out, "--format", "json").stdout)
    assert told["state"] == "failed"
    assert told["cells"]["failed"] == sum(len(each["cells"]) for each in told["failures"])
    assert told["cells"]["done"] + told["cells"]["failed"] == told["cells"]["total"]
    assert {each["reason"] for each in told["failures"]} == set(reasons.values())
    for name, message in (flaws | hows).items():
        assert reasons[name].startswith(f"The calibrator '{name}' {message}")
        assert len(reasons[name]) <= 600
    for name, message in flaws.items():
        assert f"failed: The calibrator '{name}' {message}" in " ".join(done.stderr.split())
        assert f"The calibrator '{name}' {message}" in " ".join(state.stdout.split())
    causes = {each["reason"].split("'")[1]: each["cause"] for each in told["failures"]}
    assert {causes[name] for name in flaws} == {"plugin"}
    assert "xxxthe end" in (out / "run.log").read_text()


def test_a_disk_that_is_full_while_a_calibrator_is_saved_ends_the_run(tmp_path: Path, prmcal: Prmcal) -> None:
    (tmp_path / "mine.py").write_text(BROKEN_CALIBRATOR)
    out = tmp_path / "out"
    path = small_grid(tmp_path, calibrators=[{"name": "full", "plugin": "careless", "arguments": {"how": "full"}}])
    done = prmcal(*run_arguments(path, out), "--plugin", tmp_path / "mine.py")
    assert done.returncode == ExitCode.BAD_INPUT
    assert f"The disk that holds {out} is full." in " ".join(done.stderr.split())
    assert prmcal("status", out).returncode == ExitCode.DONE
