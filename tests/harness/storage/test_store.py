"""Artifacts: whole or absent, and a full disk loses nothing."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from prmcal.errors import StorageError
from prmcal.harness.storage.store import ArtifactRef, Store, write_atomically

FIGURES = {"seconds": 1.5, "samples": 3}
ROLLOUT = ArtifactRef("rollout", "k")


def fill(folder: Path) -> None:
    (folder / "table.parquet").write_bytes(b"0123456789" * 100)


def test_what_was_written_is_found_with_its_costs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    written = store.write(ArtifactRef("rollout", "k1"), fill, FIGURES)
    assert store.manifest(ArtifactRef("rollout", "k1")) is not None
    assert (written.seconds, written.samples) == (1.5, 3)
    assert store.manifest(ArtifactRef("rollout", "k2")) is None


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete", "manifest"])
def test_a_damaged_artifact_counts_as_absent_and_can_be_written_again(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    store.write(ROLLOUT, fill, FIGURES)
    table = store.folder(ROLLOUT) / "table.parquet"
    if damage == "truncate":
        table.write_bytes(table.read_bytes()[:500])
    elif damage == "flip":
        table.write_bytes(b"1" + table.read_bytes()[1:])
    elif damage == "delete":
        table.unlink()
    else:
        (store.folder(ROLLOUT) / "artifact.json").write_text('{"files": {')
    assert store.manifest(ROLLOUT) is None
    store.write(ROLLOUT, fill, FIGURES)
    assert store.manifest(ROLLOUT) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds": "1.5"},
        {"seconds": float("inf")},
        {"samples": -1},
        {"samples": 1.5},
        {"files": None},
        {"files": {"table.parquet": "1000"}},
        {"files": {"table.parquet": [1000]}},
        {"files": {"table.parquet": [True, "0"]}},
        {"files": {"../../../other": [3, "0"]}},
        {"files": {"/etc/passwd": [3, "0"]}},
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_a_manifest_that_no_run_writes_counts_as_absent(tmp_path: Path, changes: dict[str, Any], verify: bool) -> None:
    store = Store(tmp_path)
    (tmp_path / "other").write_text("key")
    store.write(ROLLOUT, fill, FIGURES)
    file = store.folder(ROLLOUT) / "artifact.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    assert store.manifest(ROLLOUT, verify) is None


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        fill(folder)
        raise RuntimeError("half-way")

    store = Store(tmp_path)
    with pytest.raises(RuntimeError):
        store.write(ROLLOUT, fails, FIGURES)
    assert list((tmp_path / "artifacts" / "rollout").iterdir()) == []


def test_a_full_disk_says_so_and_keeps_the_rest(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = Store(tmp_path)
    store.write(ArtifactRef("rollout", "k1"), fill, FIGURES)
    with pytest.raises(StorageError, match=r"full\. Free some space and run the same command again"):
        store.write(ArtifactRef("rollout", "k2"), full, FIGURES)
    assert store.manifest(ArtifactRef("rollout", "k1")) is not None


def test_leftovers_of_a_killed_worker_are_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(ROLLOUT, fill, FIGURES)
    leftover = tmp_path / "artifacts" / "rollout" / ".k9-abc"
    leftover.mkdir()
    (leftover / "half.parquet").write_bytes(b"1")
    own, other = tmp_path / ".failures.json.123", tmp_path / ".answers.json.123"
    own.touch()
    other.touch()
    store.remove_leftovers()
    assert not leftover.exists() and not own.exists() and other.exists()
    assert store.manifest(ROLLOUT) is not None


def test_a_full_disk_leaves_a_text_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str, encoding: str) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "run.json"
    write_atomically(file, "before")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(StorageError, match="is full"):
        write_atomically(file, "after")
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]


def test_what_is_not_a_file_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=rf"{tmp_path} exists and is not a file\. Nothing was changed"):
        write_atomically(tmp_path, "text")


def test_manifests_are_read_together_and_only_of_whole_artifacts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    refs = [ArtifactRef(kind, f"k{number:03}") for kind in ("rollout", "score") for number in range(150)]
    written = {ref: store.write(ref, fill, {**FIGURES, "samples": n}) for n, ref in enumerate(refs)}
    flipped, deleted = refs[7], refs[200]
    (store.folder(flipped) / "table.parquet").write_bytes(b"1" * 1000)
    (store.folder(deleted) / "table.parquet").unlink()
    wanted = [*refs[:250], ArtifactRef("rollout", "never")]
    found = store.manifests(wanted)
    assert list(found) == [ref for ref in refs[:250] if ref not in (flipped, deleted)]
    assert all(found[ref].samples == written[ref].samples for ref in found)
    assert set(store.manifests(refs, verify=False)) == set(refs) - {deleted}  # A hash is not compared here.
