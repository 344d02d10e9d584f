"""Folders that a run finds: of a smaller grid, of another grid, of another version, locked, or with other files."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from prmcal.errors import RunError
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.execution.ending import RunSummary
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import SYNTHETIC, exported, grid, run_arguments
from tests.one_process import run_here


def test_a_grown_grid_keeps_what_is_there(tmp_path: Path) -> None:
    log = tmp_path / "generations.log"
    llms = [{"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.7, "log": str(log)}}]
    out = tmp_path / "out"

    def run(*calibrators: str, **options: Any) -> RunSummary:
        return run_here(grid(tmp_path, llms=llms, calibrators=calibrators), out, **options)

    run("uncalibrated")
    generations = log.read_text()
    run("uncalibrated", "temperature")
    assert log.read_text() == generations
    table = exported(out)
    assert "temperature" in table and "uncalibrated" in table
    names = ("run.json", "plan.json", "failures.json", "results.duckdb", "leaderboard.duckdb")
    before = [(out / name).read_bytes() for name in names]
    lost = [line for line in table.splitlines() if ",uncalibrated," in line]
    with pytest.raises(RunError) as refused:
        run("temperature")
    assert f"The run would delete {len(lost)} finished cells of {out}, such as" in str(refused.value)
    assert "which this grid does not have. Nothing was changed. Choose another --out folder" in str(refused.value)
    assert [(out / name).read_bytes() for name in names] == before
    run("temperature", drop_cells=True)
    assert "uncalibrated" not in exported(out)
    assert f"earlier form of the grid are deleted: {len(lost)}." in (out / "run.log").read_text()
    assert run("uncalibrated", "temperature").computed == 0
    assert exported(out) == table


def test_changed_cells_that_a_run_is_not_asked_for_are_not_lost(tmp_path: Path, prmcal: Prmcal) -> None:
    out, weak = tmp_path / "out", {"llm": ["weak"]}
    skills = {"weak": 0.7, "strong": 0.9}
    two = [{"name": name, "plugin": "synthetic-llm", "arguments": {"skill": skill}} for name, skill in skills.items()]
    small = {"llms": two, "calibrators": ["uncalibrated"], "strategies": ["pass@1"]}
    path = grid(tmp_path, **small)
    run_here(path, out)
    table = exported(out)
    run_here(path, out, only=weak)
    assert exported(out) == table
    grid(tmp_path, **small, seed=7)
    refused = prmcal(*run_arguments(path, out), "--only", "llm=weak")
    assert refused.returncode == ExitCode.BAD_INPUT
    assert "2 finished cells" in refused.stderr
    assert "changed, and for which it is not asked. Nothing was changed. Run the whole grid" in " ".join(
        refused.stderr.split()
    )
    assert exported(out) == table
    assert prmcal(*run_arguments(path, out), "--only", "llm=weak", "--drop-cells").returncode == 0
    assert exported(out).count(",pending,") == 2


def test_a_locked_folder_names_the_process_that_holds_it(tmp_path: Path, prmcal: Prmcal) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with (out / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4711\n")
        lock.flush()
        refused = prmcal(*run_arguments(grid(tmp_path), out))
    assert refused.returncode == 2
    assert "is locked by another run (process 4711)" in refused.stderr


def test_a_folder_of_another_grid_is_refused(prmcal: Prmcal, tmp_path: Path, finished: tuple[Path, Path]) -> None:
    _, out = finished
    other = grid(tmp_path, name="other")
    for arguments in (run_arguments(other, out), ["plan", other, "--out", out, "--plugin", SYNTHETIC]):
        refused = prmcal(*arguments)
        assert refused.returncode == 2
        assert "belongs to the grid 'synthetic', not to 'other'" in refused.stderr


def test_a_folder_with_other_files_is_refused(prmcal: Prmcal, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("dear diary")
    refused = prmcal(*run_arguments(grid(tmp_path), out))
    assert refused.returncode == 2
    assert "holds files that are not from a run" in refused.stderr
    assert [path.name for path in out.iterdir() if path.name != "run.lock"] == ["thesis.tex"]


def test_an_output_folder_that_cannot_be_made(prmcal: Prmcal, tmp_path: Path) -> None:
    refused = prmcal(*run_arguments(grid(tmp_path), Path("/proc/prmcal/out")))
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("prmcal: error: /proc/prmcal/out cannot be written")
    assert "Traceback" not in refused.stderr
