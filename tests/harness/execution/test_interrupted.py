"""Whole runs of a synthetic grid that are killed, interrupted, or computed by fewer processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Prmcal, command, environment
from tests.harness.execution.synthetic_grid import exported, grid, run_arguments, started


def test_killed_twice_the_leaderboard_is_the_same_to_the_byte(
    tmp_path: Path, prmcal: Prmcal, finished: tuple[Path, Path]
) -> None:
    path, whole = finished
    out = tmp_path / "out"
    shards = len(list(whole.glob("artifacts/*/*/artifact.json")))
    moments = sorted(random.sample(range(shards), 2))
    for moment in moments:
        process = subprocess.Popen(
            command(*run_arguments(path, out, workers=2)),
            env=environment(),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while len(list(out.glob("artifacts/*/*/artifact.json"))) < moment and process.poll() is None:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
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
    process = started(run_arguments(slow, out, workers=2))
    while not list(out.glob("artifacts/*/*/artifact.json")) and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert (
        errors.splitlines()[-1]
        == "Interrupted. Finished work is kept. To continue, run the same command again."
    )
    assert "Traceback" not in errors


def test_the_number_of_workers_changes_nothing(
    tmp_path: Path, prmcal: Prmcal, finished: tuple[Path, Path]
) -> None:
    path, whole = finished
    out = tmp_path / "out"
    alone = prmcal(*run_arguments(path, out, workers=1))
    assert alone.returncode == 0, alone.stderr
    assert exported(out) == exported(whole)
