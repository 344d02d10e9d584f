"""Damaged runs and leaderboards are told, and what a leaderboard lost can be supplied again."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from prmcal.db.reader import engine_for
from prmcal.db.run_folder import published_path
from prmcal.errors import DatabaseVersionError, PrmcalError, RunError, StorageError
from prmcal.harness.share.merge import merge, rebuild_merged
from tests.harness.share.small_runs import leaderboards


@pytest.fixture(scope="module")
def merged(parts: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The leaderboard of one run. Tests must not write to it."""
    out = tmp_path_factory.mktemp("merged") / "out"
    merge(out, [parts["dataset"]])
    return out


@pytest.fixture
def board(merged: Path, tmp_path: Path) -> Path:
    """A copy of the leaderboard, for tests that change it."""
    return Path(shutil.copytree(merged, tmp_path / "board"))


def test_a_run_with_a_damaged_artifact_is_refused(parts: Mapping[str, Path], tmp_path: Path) -> None:
    run = shutil.copytree(parts["llm"], tmp_path / "run")
    table = min(run.glob("artifacts/calibration_metrics/*/results.parquet"))
    os.truncate(table, 100)
    with pytest.raises(RunError, match=rf"{table.parent} is damaged\. Run the grid again .*`prmcal run`"):
        merge(tmp_path / "out", [run, parts["dataset"]])
    assert not (tmp_path / "out").exists()
    shutil.rmtree(table.parent)
    assert merge(tmp_path / "out", [run]).added


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_what_a_leaderboard_lost_is_there_again(
    parts: Mapping[str, Path], merged: Path, board: Path, tmp_path: Path, damage: str
) -> None:
    artifact = min((board / "artifacts" / "score").iterdir())
    if damage == "missing":
        shutil.rmtree(artifact)
    else:
        (artifact / "rewards.parquet").unlink()
    rebuild_merged(board)
    assert (artifact / "rewards.parquet").exists()
    assert leaderboards(board) == leaderboards(merged)
    (submission,) = (board / "submissions").iterdir()
    table = min(submission.glob("artifacts/score/*/rewards.parquet"))
    table.unlink()
    with pytest.raises(PrmcalError, match="lacks a file that its list has"):
        merge(tmp_path / "new", [board])
    with pytest.raises(PrmcalError, match=rf"{submission} is damaged\. Delete this folder"):
        shutil.rmtree(board / "artifacts")
        rebuild_merged(board)
    shutil.rmtree(submission)
    merge(board, [parts["dataset"]])
    assert leaderboards(board) == leaderboards(merged)


def test_the_database_of_a_newer_version_is_left_alone(parts: Mapping[str, Path], board: Path) -> None:
    with engine_for(published_path(board)).begin() as connection:
        connection.exec_driver_sql("UPDATE schema_version SET version = 99")
    before = published_path(board).read_bytes(), sorted(board.rglob("*"))
    with pytest.raises(DatabaseVersionError, match="newer version of prmcal"):
        merge(board, [parts["llm"]])
    with pytest.raises(DatabaseVersionError, match="newer version of prmcal"):
        rebuild_merged(board)
    assert (published_path(board).read_bytes(), sorted(board.rglob("*"))) == before


def test_a_damaged_database_is_written_again(parts: Mapping[str, Path], merged: Path, board: Path) -> None:
    published_path(board).write_bytes(b"not a database")
    merge(board, [parts["dataset"]])
    assert leaderboards(board) == leaderboards(merged)


def test_a_disk_that_is_full_while_inputs_are_read_is_one_error(
    parts: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bytes = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if ".incoming" in path.parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match=r"is full\. Free some space and run the same command again"):
        merge(tmp_path / "out", [parts["dataset"]])
    assert not (tmp_path / "out").exists()


def test_what_a_killed_merge_left_is_removed(parts: Mapping[str, Path], board: Path) -> None:
    (board / ".incoming" / "0").mkdir(parents=True)
    merge(board, [parts["dataset"]])
    assert not (board / ".incoming").exists()
