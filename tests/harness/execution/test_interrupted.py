"""Whole runs of a synthetic grid that are killed, interrupted, or computed by fewer processes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Prmcal, environment
from tests.forked import begun_command, run_command
from tests.harness.execution.synthetic_grid import exported, grid, run_arguments, started

# The process kills itself when a run has so many artifacts, or some time later.
KILLED = """
import os, runpy, signal, sys, threading, time
from pathlib import Path

out, moment, pause = Path(sys.argv.pop(1)), int(sys.argv.pop(1)), float(sys.argv.pop(1))

def kill():
    while len(list(out.glob("artifacts/*/*/artifact.json"))) < moment:
        time.sleep(0.01)
    time.sleep(pause)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill, daemon=True).start()
runpy.run_module("prmcal", run_name="__main__", alter_sys=True)
"""


def test_killed_twice_and_finished_by_fewer_workers_the_leaderboard_is_the_same_to_the_byte(
    tmp_path: Path, prmcal: Prmcal, finished: tuple[Path, Path]
) -> None:
    path, whole = finished
    out = tmp_path / "out"
    shards = len(list(whole.glob("artifacts/*/*/artifact.json")))
    moments = sorted(random.sample(range(shards), 2))
    for moment, workers in zip(moments, (2, 1), strict=True):
        arguments = [out, moment, random.uniform(0, 0.1), *run_arguments(path, out, workers)]
        run_command(list(map(str, arguments)), environment(), ROOT, KILLED)
    resumed = prmcal(*run_arguments(path, out))
    assert resumed.returncode == 0, resumed.stderr
    assert exported(out) == exported(whole), f"killed after {moments} shards"


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """A shell that runs the tests in the background has told all of its children to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, heeded_interrupts: None) -> None:
    out = tmp_path / "out"
    slow = grid(tmp_path, llms=[{"name": "slow", "plugin": "synthetic-llm", "arguments": {"pause": 1.0}}])
    process = started(run_arguments(slow, out))
    while not list(out.glob("artifacts/*/*/artifact.json")) and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "Interrupted. Finished work is kept. To continue, run the same command again."
    assert "Traceback" not in errors


def test_a_run_that_is_ended_at_its_beginning_goes_on(tmp_path: Path, prmcal: Prmcal) -> None:
    path, out = grid(tmp_path), tmp_path / "run"
    moments = (signal.SIGINT, 0), (signal.SIGKILL, 0.1), (signal.SIGINT, 0.3)
    for number, pause in moments:
        (out / "run.lock").unlink(missing_ok=True)
        process = begun_command(list(map(str, run_arguments(path, out))), environment(), ROOT, tmp_path)
        while not (out / "run.lock").exists() and process.exitcode is None:
            time.sleep(0.005)
        time.sleep(pause)
        assert process.pid is not None
        os.kill(process.pid, number)
        process.join()
        errors = (tmp_path / "errors").read_text()
        assert "Traceback" not in errors and "not from a run" not in errors
        if number == signal.SIGINT and process.exitcode:
            assert process.exitcode == 130 and "run the same command again" in errors.splitlines()[-1]
    done = prmcal(*run_arguments(path, out))
    assert done.returncode == 0, done.stderr


def test_the_plugin_file_of_a_strangers_run_is_loaded_only_if_it_was_named(
    tmp_path: Path, prmcal: Prmcal, finished: tuple[Path, Path]
) -> None:
    strange = shutil.copytree(finished[1], tmp_path / "strange")
    (tmp_path / "theirs.py").write_text("import sys\nsys.exit('it ran')\n")
    record = json.loads((strange / "run.json").read_text()) | {"plugin_files": [str(tmp_path / "theirs.py")]}
    (strange / "run.json").write_text(json.dumps(record))
    for command_ in (
        ("ask", strange, "1 + 1?"),
        ("export-prm", "1", "--out", tmp_path / "prm", "--dir", strange),
    ):
        refused = prmcal(*command_)
        assert refused.returncode == 2 and "nobody has named on this machine" in refused.stderr, refused.stderr
        assert "it ran" not in refused.stderr
    (tmp_path / "theirs.py").write_text("")
    assert prmcal("list", "metric", "--plugin", tmp_path / "theirs.py").returncode == 0
    assert "nobody has named" not in prmcal("ask", strange, "1 + 1?").stderr
