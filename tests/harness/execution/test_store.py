"""Artifacts: whole or absent, and a full disk loses nothing."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from prmcal.errors import StorageError
from prmcal.harness.storage.store import Store

FIGURES = {"seconds": 1.5, "samples": 3}


def fill(folder: Path) -> None:
    (folder / "table.parquet").write_bytes(b"0123456789" * 100)


def test_what_was_written_is_found_with_its_costs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    written = store.write("rollout", "k1", fill, FIGURES)
    assert store.manifest("rollout", "k1") is not None
    assert (written.seconds, written.samples) == (1.5, 3)
    assert store.manifest("rollout", "k2") is None


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete", "manifest"])
def test_a_damaged_artifact_counts_as_absent_and_can_be_written_again(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    store.write("rollout", "k", fill, FIGURES)
    table = store.folder("rollout", "k") / "table.parquet"
    if damage == "truncate":
        table.write_bytes(table.read_bytes()[:500])
    elif damage == "flip":
        table.write_bytes(b"1" + table.read_bytes()[1:])
    elif damage == "delete":
        table.unlink()
    else:
        (store.folder("rollout", "k") / "artifact.json").write_text('{"files": {')
    assert store.manifest("rollout", "k") is None
    store.write("rollout", "k", fill, FIGURES)
    assert store.manifest("rollout", "k") is not None


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        fill(folder)
        raise RuntimeError("half-way")

    store = Store(tmp_path)
    with pytest.raises(RuntimeError):
        store.write("rollout", "k", fails, FIGURES)
    assert list((tmp_path / "artifacts" / "rollout").iterdir()) == []


def test_a_full_disk_says_so_and_keeps_the_rest(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = Store(tmp_path)
    store.write("rollout", "k1", fill, FIGURES)
    with pytest.raises(StorageError, match=r"full\. Free some space and run the same command again"):
        store.write("rollout", "k2", full, FIGURES)
    assert store.manifest("rollout", "k1") is not None


def test_leftovers_of_a_killed_worker_are_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("rollout", "k", fill, FIGURES)
    leftover = tmp_path / "artifacts" / "rollout" / ".k9-abc"
    leftover.mkdir()
    (leftover / "half.parquet").write_bytes(b"1")
    store.remove_leftovers()
    assert not leftover.exists()
    assert store.manifest("rollout", "k") is not None
