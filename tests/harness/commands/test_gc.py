"""``prmcal gc``: what it deletes, what it keeps, and when it deletes nothing."""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from prmcal.errors import RunError
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.files import gc
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.saved import write_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import Store
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS, Prmcal

load_plugin_file(PLUGINS / "synthetic.py")


def claimed(out: Path, **changes: Any) -> list[Path]:
    """Make the folder of a grid, with artifacts that hold a few bytes. Return them, in the order of the plan."""
    grid = GridSpec.model_validate(yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | changes)
    plan, record = build_plan(grid), RunRecord(grid.model_dump(mode="json"), [], "a", "2026-01-02T03:04:05")
    out.mkdir(exist_ok=True)
    write_plan(out, record.grid, plan)
    RunFolder(out).write_record(record)
    store = Store(out)
    for shard in plan.shards():
        store.write(shard.ref, write_a_byte, {"seconds": 1.0})
    return list(dict.fromkeys(store.folder(shard.ref) for shard in plan.shards()))


def write_a_byte(folder: Path) -> None:
    (folder / "data").write_bytes(b"x")


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Path], list[Path]]:
    """A folder whose grid was changed, what the grid needs, and what it does not."""
    monkeypatch.setenv("COLUMNS", "400")  # The path of a temporary folder may be long.
    out = tmp_path / "out"
    before = claimed(out)
    needed = claimed(out, calibrators=["uncalibrated", "temperature"])
    unneeded = [path for path in before if path not in needed]
    half_written = needed[0].with_name(f".{needed[0].name}-abc_123")
    fit = next(path for path in needed if path.parent.name == "fit")
    by_hand = fit.with_name("moved by hand")
    fit.rename(by_hand)
    of_open, of_finished, of_old = (out / "checkpoints" / key for key in (fit.name, needed[1].name, "0" * 24))
    for path in (half_written, of_open, of_finished, of_old):
        path.mkdir(parents=True)
        (path / "data").write_bytes(b"x" * 1000)
    kept = [*(path for path in needed if path != fit), by_hand, of_open]
    return out, kept, [*unneeded, half_written, of_finished, of_old]


def test_exactly_what_the_grid_does_not_need_is_deleted(
    changed: tuple[Path, list[Path], list[Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    out, kept, unneeded = changed
    gc(out, yes=True)
    told = capsys.readouterr().out
    assert all(path.is_dir() for path in kept)
    assert not any(path.exists() for path in unneeded)
    assert f"Deleted {len(unneeded)} folders" in told
    row = next(line.split() for line in told.splitlines() if line.split()[:1] == ["checkpoints"])
    assert row == ["checkpoints", "2", "2.0", "kB"]
    gc(out, yes=True)
    again = capsys.readouterr().out
    assert " ".join(again.split()) == f"The grid 'synthetic' needs everything in {out}."


@pytest.mark.parametrize("asked", [False, True], ids=["no terminal", "no"])
def test_nothing_is_deleted_unless_the_user_agrees(
    changed: tuple[Path, list[Path], list[Path]],
    asked: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, kept, unneeded = changed
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: asked))
    monkeypatch.setattr("typer.confirm", lambda question: False)
    gc(out)
    told = capsys.readouterr().out
    assert all(path.is_dir() for path in [*kept, *unneeded])
    assert "Nothing was deleted" in told
    assert (f"prmcal gc {out} --yes" in " ".join(told.split())) != asked


def test_a_running_grid_is_left_alone(changed: tuple[Path, list[Path], list[Path]]) -> None:
    out, _, unneeded = changed
    with (out / "run.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="is locked by another run"):
            gc(out, yes=True)
    assert all(path.is_dir() for path in unneeded)


def test_without_a_saved_plan_nothing_is_deleted(changed: tuple[Path, list[Path], list[Path]]) -> None:
    out, _, unneeded = changed
    (out / "plan.json").unlink()
    with pytest.raises(RunError, match="Run the grid again: finished work is kept"):
        gc(out, yes=True)
    assert all(path.is_dir() for path in unneeded)


def test_a_folder_without_a_run_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="No grid was run in"):
        gc(tmp_path / "out", yes=True)
    assert not (tmp_path / "out").exists()


def test_the_command_deletes_with_yes_only(changed: tuple[Path, list[Path], list[Path]], prmcal: Prmcal) -> None:
    out, _, unneeded = changed
    told = prmcal("gc", out)
    assert (told.returncode, told.stderr) == (ExitCode.DONE, "")
    assert "Nothing was deleted" in told.stdout
    assert all(path.exists() for path in unneeded)
    done = prmcal("gc", out, "--yes")
    assert done.returncode == ExitCode.DONE
    assert not any(path.exists() for path in unneeded)
