"""Runs that end before their work is done: by a signal, or because their time is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import prmcal as face
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.execution import ending
from prmcal.harness.execution.ending import EndWatch
from tests.conftest import Prmcal, environment
from tests.harness.execution.synthetic_grid import SYNTHETIC, grid, run_arguments, runs, started

FAST = {"name": "fast", "plugin": "synthetic-llm"}
ENDLESS = {"name": "endless", "plugin": "synthetic-llm", "arguments": {"pause": 36000.0}}
CONTINUE = "Finished work is kept. To continue, run the same command again."


def processes_of(parent: int) -> set[int]:
    """The processes that a process started, directly or not."""
    found: set[int] = set()
    waiting = [parent]
    while waiting:
        for listed in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            children = {int(each) for each in listed.read_text().split()}
            waiting += children - found
            found |= children
    return found


def wait_for(file: Path, text: str, process: subprocess.Popen[str]) -> None:
    """Wait until a file of a run contains a text."""
    end = time.monotonic() + 600
    while not (file.exists() and text in file.read_text(errors="replace")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_signal_to_all_processes_ends_a_run_cleanly(tmp_path: Path, prmcal: Prmcal) -> None:
    few = [{"name": "synthetic-questions", "questions": 8}]
    path, out = grid(tmp_path, llms=[FAST, ENDLESS], datasets=few), tmp_path / "out"
    process = started(run_arguments(path, out, workers=2))
    wait_for(out / "run.log", "strategy of fast", process)
    workers = processes_of(process.pid)
    assert len(workers) >= 2
    for each in (*sorted(workers), process.pid):  # as a scheduler does
        os.kill(each, signal.SIGTERM)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == ExitCode.TERMINATED
    assert errors.splitlines()[-1] == f"The run was ended by SIGTERM. {CONTINUE}"
    assert "Traceback" not in errors
    end = time.monotonic() + 600
    while left := [each for each in workers if runs(each)]:
        assert time.monotonic() < end, f"processes {left} outlive the run"
        time.sleep(0.05)
    status = json.loads(prmcal("status", out, "--format", "json").stdout)
    assert (status["state"], status["failures"]) == ("interrupted", [])
    assert status["cells"]["done"] > 0 < status["cells"]["pending"]
    published = face.open_run(out).cells["status"].value_counts()
    assert published["done"] > 0 < published["pending"]


def test_a_script_ends_as_the_signal_ends_it_after_the_work_is_recorded(tmp_path: Path) -> None:
    path, out = grid(tmp_path, llms=[ENDLESS]), tmp_path / "out"
    run = f"prmcal.run({str(path)!r}, {str(out)!r}, workers=1, plugins=[{str(SYNTHETIC)!r}])"
    code = f"import prmcal\n{run}\nprint('The script goes on.')"
    script = subprocess.Popen([sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, text=True)
    wait_for(out / "leaderboard.duckdb", "", script)
    script.terminate()
    assert script.communicate()[0] == ""
    assert script.returncode == -signal.SIGTERM
    assert set(face.open_run(out).cells["status"]) == {"pending"}


@pytest.fixture
def handlers() -> Iterator[dict[str, Any]]:
    """Handlers that note the signals which a block does not keep, and raise no error."""
    names: tuple[str, ...] = ("SIGINT", "SIGTERM", "SIGHUP")
    noted: dict[str, Any] = {"outside": []}
    before = {name: signal.getsignal(getattr(signal, name)) for name in names}
    for name in names:
        noted[name] = lambda number, _: noted["outside"].append(signal.Signals(number).name)
        signal.signal(getattr(signal, name), noted[name])
    yield noted
    for name in names:
        signal.signal(getattr(signal, name), before[name])


def test_the_first_signal_is_noticed_and_handlers_are_restored(handlers: dict[str, Any]) -> None:
    with EndWatch() as watch:
        assert watch.ending is None
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # A scheduler sent it to a shell too, which passed it on.
        assert watch.ending == "SIGTERM"
    assert handlers["outside"] == []
    assert all(signal.getsignal(getattr(signal, name)) is handlers[name] for name in ("SIGINT", "SIGTERM", "SIGHUP"))


def test_the_second_signal_has_its_usual_effect(handlers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_SECONDS_OF_ONE_SIGNAL", 0.0)
    with EndWatch() as watch:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert watch.ending == "SIGTERM"
    assert handlers["outside"] == ["SIGINT"]


def test_an_ignored_signal_stays_ignored_and_other_threads_set_no_handlers(handlers: dict[str, Any]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with EndWatch() as watch:
        signal.raise_signal(signal.SIGHUP)
        assert watch.ending is None

    def watching() -> None:
        with EndWatch():
            assert signal.getsignal(signal.SIGTERM) is handlers["SIGTERM"]

    with ThreadPoolExecutor() as threads:
        threads.submit(watching).result()
