"""Folders of strangers: whatever is wrong with one is found before anything is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from prmcal.errors import PrmcalError
from prmcal.harness.merging.merge import merge
from prmcal.harness.storage.store import Store
from tests.harness.merging.small_runs import copied, refs_of, sealed


@pytest.fixture
def strange(made_halves: list[Path], tmp_path: Path) -> Path:
    """The folder of a stranger, which a test spoils."""
    return copied(made_halves[1], tmp_path / "strange")


def refuses(strange: Path, message: str, *others: Path) -> None:
    """Check that a merge of other folders with this one is refused, and leaves nothing behind."""
    before = sorted(path for path in strange.parent.rglob("*"))
    with pytest.raises(PrmcalError, match=message):
        merge([*others, strange], strange.parent / "out")
    assert sorted(path for path in strange.parent.rglob("*")) == before


def folder_of(strange: Path, kind: str = "score") -> Path:
    return next(
        folder for ref in refs_of(strange, kind, llm="strong") if (folder := Store(strange).folder(ref)).exists()
    )


def replaced(path: Path, content: bytes) -> None:
    path.unlink()  # Other runs have links to the file.
    path.write_bytes(content)


def other_bytes(folder: Path) -> None:
    content = bytearray((folder / "rewards.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    replaced(folder / "rewards.parquet", bytes(content))


def without_manifest(folder: Path) -> None:
    (folder / "artifact.json").unlink()


def without_table(folder: Path) -> None:
    (folder / "other.json").write_text("{}")
    sealed(folder, "other.json")
    drop(folder, "rewards.parquet")


def drop(folder: Path, name: str) -> None:
    (folder / name).unlink()
    manifest = json.loads((folder / "artifact.json").read_text())
    del manifest["files"][name]
    replaced(folder / "artifact.json", json.dumps(manifest).encode())


def further_file(folder: Path) -> None:
    (folder / "further.json").write_text("{}")


def pickle(folder: Path) -> None:
    (folder / "model.pkl").write_bytes(b"\x80\x04.")
    sealed(folder, "model.pkl")


def outside(folder: Path) -> None:
    manifest = json.loads((folder / "artifact.json").read_text())
    manifest["files"]["../../../run.json"] = [1, "0" * 64]
    replaced(folder / "artifact.json", json.dumps(manifest).encode())


def link_to_a_file(folder: Path) -> None:
    shutil.move(folder / "rewards.parquet", folder.parents[2] / "elsewhere")
    (folder / "rewards.parquet").symlink_to(folder.parents[2] / "elsewhere")


def link_to_a_folder(folder: Path) -> None:
    folder.rename(folder.parents[2] / "elsewhere")
    folder.symlink_to(folder.parents[2] / "elsewhere")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "waits.json")


def odd_name(folder: Path) -> None:
    (folder / "a\nb.json").write_text("{}")
    sealed(folder, "a\nb.json")


def no_table(folder: Path) -> None:
    replaced(folder / "rewards.parquet", b"PAR1 and nothing else PAR1")
    sealed(folder, "rewards.parquet")


def with_column(name: str, values: pa.Array) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        table = parquet.read_table(folder / "rewards.parquet")
        places = {each: place for place, each in enumerate(table.column_names)}
        column = pa.chunked_array([pa.concat_arrays([values] * len(table))])
        change = table.append_column if name not in places else partial(table.set_column, places[name])
        table = change(name, column)
        (folder / "rewards.parquet").unlink()
        parquet.write_table(table, folder / "rewards.parquet")
        sealed(folder, "rewards.parquet")

    return spoil


def bomb(folder: Path) -> None:
    table = parquet.read_table(folder / "rewards.parquet").select(["step"])
    table = table.take(np.zeros(2**25 + 1, np.int64))
    (folder / "rewards.parquet").unlink()
    with parquet.ParquetWriter(folder / "rewards.parquet", table.schema) as writer:
        for _ in range(2):
            writer.write_table(table)
    sealed(folder, "rewards.parquet")


ARTIFACTS: dict[Callable[[Path], None], str] = {
    other_bytes: "does not have the files of its manifest",
    without_manifest: "does not have the files of its manifest",
    without_table: "lacks a table",
    further_file: "does not have the files of its manifest",
    pickle: "of a kind or a size that no run writes",
    outside: "does not have the files of its manifest",
    link_to_a_file: "has 'rewards.parquet', which no run writes",
    link_to_a_folder: "is a link, which no run writes",
    pipe: "has 'waits.json', which no run writes",
    odd_name: "which no run writes",
    no_table: "rewards.parquet cannot be read",
    bomb: "it claims 67,108,866 rows",
    with_column("more", pa.array([1])): "it has the unknown column more",
    with_column("step", pa.array(["one"])): "does not fit the table 'rewards'",
    with_column("step", pa.array([None], pa.int64())): "does not fit the table 'rewards'",
}


@pytest.mark.parametrize("spoil", ARTIFACTS, ids=[f"{each.__name__}-{n}" for n, each in enumerate(ARTIFACTS)])
def test_an_artifact_that_no_run_writes(spoil: Callable[[Path], None], strange: Path) -> None:
    spoil(folder_of(strange))
    refuses(strange, ARTIFACTS[spoil])


def with_value(name: str, place: tuple[str | int, ...], value: Any) -> Callable[[Path], None]:
    """Return what puts a value into the JSON of a file."""

    def spoil(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        inner = content
        for each in place[:-1]:
            inner = inner[each]
        inner[place[-1]] = value
        replaced(folder / name, json.dumps(content).encode())

    return spoil


JSON = [
    (with_value("run.json", ("grid",), {"name": 3}), "a grid without a name"),
    (with_value("run.json", ("environment",), {"path": "/home"}), "an environment that no run has"),
    (with_value("run.json", ("environment",), {"packages": "all"}), "an environment that no run has"),
    (with_value("run.json", ("started_at",), "soon"), "run.json is damaged"),
    (with_value("run.json", ("sources",), [{"grid": {}}]), "run.json is damaged"),
    (with_value("plan.json", ("grid",), "0" * 24), "it is the plan of another grid"),
    (with_value("plan.json", ("jobs", 0, "shards", 0), "../../../../etc"), "not the hash of its inputs"),
    (with_value("plan.json", ("jobs", 0, "kind"), "../score"), "plan.json is damaged"),
    (with_value("plan.json", ("jobs", 0, "version"), 99), "not the hash of its inputs"),
    (with_value("plan.json", ("jobs", 0, "identities", 0, 0), 1), "not the hash of its inputs"),
    (with_value("plan.json", ("cells", 0, "leaderboard"), "best"), "cannot be merged"),
    (with_value("plan.json", ("cells", 0, "labels", "llm"), "a/b"), "cannot be merged"),
    (with_value("plan.json", ("cells", 0, "labels", "llm"), "other"), "which no grid plans"),
    (with_value("plan.json", ("cells", 0, "source"), 7), "cannot be merged"),
    (with_value("plan.json", ("plugins", "llm", 0, "reference", "name"), ["weak"]), "cannot be merged"),
    (with_value("plan.json", ("datasets", 0, "questions", 0, 1), None), "cannot be merged"),
    (with_value("plan.json", ("metrics", 0, "better"), "most"), "plan.json is damaged"),
    (with_value("failures.json", ("0" * 24,), {"reason": 5}), "cannot be merged"),
]


@pytest.mark.parametrize(("spoil", "message"), JSON, ids=[str(number) for number in range(len(JSON))])
def test_json_that_no_run_writes(spoil: Callable[[Path], None], message: str, strange: Path) -> None:
    spoil(strange)
    refuses(strange, message)


def test_large_json_is_not_read(strange: Path, whole: Path) -> None:
    (strange / "failures.json").unlink()
    with (strange / "failures.json").open("wb") as file:
        file.truncate(2**28 + 1)
    refuses(strange, "too large to be read", whole)


def test_plugin_files_of_a_stranger_are_not_named(strange: Path, whole: Path, tmp_path: Path) -> None:
    with_value("run.json", ("plugin_files",), ["/tmp/theirs.py"])(strange)
    merge([copied(whole, tmp_path / "own"), strange], tmp_path / "out")
    assert "theirs" not in (tmp_path / "out" / "run.json").read_text()
