"""Folders that a run finds: of a smaller grid, of another grid, of another version, locked, or with other files."""

from __future__ import annotations

import fcntl
from pathlib import Path
from subprocess import CompletedProcess

from prmcal.harness.cli.app import ExitCode
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import SYNTHETIC, exported, grid, run_arguments


def test_a_grown_grid_keeps_what_is_there(tmp_path: Path, prmcal: Prmcal) -> None:
    log = tmp_path / "generations.log"
    llms = [{"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.7, "log": str(log)}}]
    out = tmp_path / "out"

    def run(path: Path, *options: str) -> CompletedProcess[str]:
        return prmcal(*run_arguments(path, out), "--limit", 4, *options)

    first = grid(tmp_path, llms=llms, calibrators=["uncalibrated"])
    assert run(first).returncode == 0
    generations = log.read_text()
    both = {"llms": llms, "calibrators": ["uncalibrated", "temperature"]}
    assert run(grid(tmp_path, **both)).returncode == 0
    assert log.read_text() == generations
    table = exported(out)
    assert "temperature" in table and "uncalibrated" in table
    small = grid(tmp_path, llms=llms, calibrators=["temperature"])
    names = ("run.json", "plan.json", "failures.json", "results.duckdb", "leaderboard.duckdb")
    before = [(out / name).read_bytes() for name in names]
    refused = run(small)
    assert refused.returncode == ExitCode.BAD_INPUT
    message = " ".join(refused.stderr.split())
    lost = [line for line in table.splitlines() if ",uncalibrated," in line]
    assert f"The run would delete {len(lost)} finished cells of {out}, such as" in message
    assert "which this grid does not have. Nothing was changed. Choose another --out folder" in message
    assert [(out / name).read_bytes() for name in names] == before
    assert run(small, "--drop-cells").returncode == 0
    assert "uncalibrated" not in exported(out)
    assert f"earlier form of the grid are deleted: {len(lost)}." in (out / "run.log").read_text()
    again = run(grid(tmp_path, **both))
    assert " 0 shards computed," in again.stderr
    assert exported(out) == table


def test_changed_cells_that_a_run_is_not_asked_for_are_not_lost(tmp_path: Path, prmcal: Prmcal) -> None:
    out = tmp_path / "out"
    skills = {"weak": 0.7, "strong": 0.9}
    two = [{"name": name, "plugin": "synthetic-llm", "arguments": {"skill": skill}} for name, skill in skills.items()]
    small = {"llms": two, "calibrators": ["uncalibrated"], "strategies": ["pass@1"]}
    run = [*run_arguments(grid(tmp_path, **small), out), "--limit", 4]
    assert prmcal(*run).returncode == 0
    table = exported(out)
    assert prmcal(*run, "--only", "llm=weak").returncode == 0
    assert exported(out) == table
    grid(tmp_path, **small, seed=7)
    refused = prmcal(*run, "--only", "llm=weak")
    assert refused.returncode == ExitCode.BAD_INPUT
    assert "2 finished cells" in refused.stderr
    assert "changed, and for which it is not asked. Nothing was changed. Run the whole grid" in " ".join(
        refused.stderr.split()
    )
    assert exported(out) == table
    assert prmcal(*run, "--only", "llm=weak", "--drop-cells").returncode == 0
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
