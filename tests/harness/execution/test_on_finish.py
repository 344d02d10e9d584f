"""The command at the end of a run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from prmcal.harness.execution.ending import Ending, RunSummary, run_on_finish


def summary(failed: int = 0, ending: Ending | None = None) -> RunSummary:
    return RunSummary(
        computed=7,
        reused=0,
        cells=5,
        done_cells=3,
        failed_cells=failed,
        grid_cells=9,
        failures=(),
        seconds=1.0,
        log=Path("run.log"),
        ending=ending,
    )


@pytest.mark.parametrize(
    ("ended", "state"),
    [
        (summary(), "done"),
        (summary(failed=2), "failed"),
        (summary(failed=2, ending="SIGTERM"), "interrupted"),
        (summary(ending="error"), "interrupted"),
        (summary(ending="max-hours"), "ended"),
    ],
)
def test_it_is_told_how_the_run_ended(ended: RunSummary, state: str, tmp_path: Path) -> None:
    out, told = tmp_path / "my out", tmp_path / "told"
    names = "$PRMCAL_STATE $PRMCAL_CELLS_DONE $PRMCAL_CELLS_FAILED $PRMCAL_RUN"
    assert run_on_finish(f"echo {names} > {told}", out, ended) == ""
    assert told.read_text() == f"{state} 3 {ended.failed_cells} {out}\n"


def test_its_failure_is_told(tmp_path: Path) -> None:
    assert (
        run_on_finish("exit 7", tmp_path, summary()) == "The command of --on-finish failed with exit code 7."
    )


def test_it_is_killed_with_all_that_it_started_when_it_takes_too_long(tmp_path: Path) -> None:
    number = tmp_path / "number"
    problem = run_on_finish(f"sleep 36000 & echo $! > {number}; wait", tmp_path, summary(), seconds=3)
    assert problem == "The command of --on-finish took longer than 3 s and was killed."
    end = time.monotonic() + 600
    while Path(f"/proc/{int(number.read_text())}/cmdline").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
