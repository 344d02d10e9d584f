"""A folder of a run is read where its plugins and its data are not: moved, or copied to another machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from prmcal.harness.cli.app import ExitCode
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import SYNTHETIC, grid


def tables(out: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables of the published database."""
    with duckdb.connect(str(out / "leaderboard.duckdb"), read_only=True) as connection:
        names = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {name: sorted(connection.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr) for name in names}


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> tuple[Path, dict[str, Any], str]:
    """The folder of a run in which cells failed, moved away from its deleted plugin file; its tables and its status."""
    folder = tmp_path_factory.mktemp("moved")
    plugin = folder / "mine.py"
    shutil.copy(SYNTHETIC, plugin)
    broken = {"name": "broken", "plugin": "broken"}
    path = grid(folder, calibrators=["uncalibrated", "isotonic", broken])
    done = prmcal("run", path, "--out", folder / "out", "--workers", 1, "--plugin", plugin)
    assert done.returncode == ExitCode.FAILED_CELLS, done.stderr
    before = tables(folder / "out")
    status = prmcal("status", folder / "out", "--format", "json").stdout
    plugin.unlink()
    (folder / "out").rename(folder / "elsewhere")
    return folder / "elsewhere", before, status


def test_the_status_of_a_moved_folder_is_the_same(moved: tuple[Path, dict[str, Any], str], prmcal: Prmcal) -> None:
    out, _, before = moved
    found = prmcal("status", out, "--format", "json")
    assert found.returncode == ExitCode.FAILED_CELLS, found.stderr
    assert json.loads(found.stdout)["log"] == str(out / "run.log")
    assert found.stdout == before.replace(str(out.with_name("out")), str(out))


@pytest.mark.parametrize("name", ["results.duckdb", "leaderboard.duckdb"])
def test_a_folder_in_place_of_a_database_is_named(
    name: str, moved: tuple[Path, dict[str, Any], str], prmcal: Prmcal, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(moved[0], tmp_path / "copy"))
    (out / name).unlink()
    (out / name).mkdir()
    refused = prmcal("rebuild", out)
    assert refused.returncode == ExitCode.BAD_INPUT
    assert f"{out / name} is a folder, where the database belongs. Remove or rename it." in " ".join(
        refused.stderr.split()
    )
    (out / name).rmdir()
    assert prmcal("rebuild", out).returncode == 0


def test_a_moved_folder_is_rebuilt_to_the_same_tables(moved: tuple[Path, dict[str, Any], str], prmcal: Prmcal) -> None:
    out, before, _ = moved
    (out / "results.duckdb").unlink()
    rebuilt = prmcal("rebuild", out)
    assert rebuilt.returncode == 0, rebuilt.stderr
    after = tables(out)
    assert after.keys() == before.keys()
    for name in before:
        assert after[name] == before[name], name


def test_success_rates_of_a_moved_folder_are_exported(
    moved: tuple[Path, dict[str, Any], str], prmcal: Prmcal, tmp_path: Path
) -> None:
    done = prmcal("export", moved[0], "--success-rates", tmp_path / "rates.jsonl")
    assert done.returncode == 0, done.stderr
    first = json.loads((tmp_path / "rates.jsonl").read_text().splitlines()[0])
    assert first["question"].endswith("steps")


def test_a_folder_without_a_plan_names_the_way_out(
    moved: tuple[Path, dict[str, Any], str], prmcal: Prmcal, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(moved[0], out)
    (out / "plan.json").unlink()
    lost = prmcal("status", out)
    assert lost.returncode == ExitCode.BAD_INPUT
    assert "plan.json is missing. Run the grid again: finished work is kept." in " ".join(lost.stderr.split())
