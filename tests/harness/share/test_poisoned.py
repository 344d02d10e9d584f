"""Poisoned bundles, whose hashes and digests fit: each is refused, by name, before a byte of the board is written."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from prmcal.errors import PrmcalError
from prmcal.harness.share import merge as merging
from prmcal.harness.share.bundle import SUBMISSION_FILE, described, read_submission
from prmcal.harness.share.merge import merge, rebuild_merged
from prmcal.harness.share.tables import digest_of
from tests.harness.share.test_unpacking import Entries, entries_of, write
from tests.harness.share.test_wrong_values import with_value

Table = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def board(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board with one submission."""
    out = tmp_path_factory.mktemp("board") / "out"
    merge(out, [bundle])
    return out


def poisoned(bundle: Path, folder: Path, change: Callable[[Entries], object]) -> Path:
    """A bundle whose manifests and list have the hashes and digests of its changed files."""
    entries = entries_of(bundle, folder / "entries")
    before = read_submission(entries.pop(SUBMISSION_FILE), "")
    change(entries)
    tables = {}
    for name, content in entries.items():
        if name.endswith(".parquet"):
            tables[name] = digest_of(parquet.read_table(io.BytesIO(content)))
            manifest = f"{name.rpartition('/')[0]}/artifact.json"
            data = json.loads(entries[manifest])
            if isinstance(data["files"], dict):
                data["files"][name.rpartition("/")[2]] = [len(content), hashlib.sha256(content).hexdigest()]
            entries[manifest] = json.dumps(data, sort_keys=True).encode()
    files = {name: described(content, tables.get(name)) for name, content in entries.items()}
    entries[SUBMISSION_FILE] = replace(before, files=files).to_bytes()
    return write(entries, folder / "poisoned.bundle")


def in_table(table: str, change: Table) -> Callable[[Entries], object]:
    """A change of the first table of a name."""

    def changed(entries: Entries) -> None:
        name = next(each for each in sorted(entries) if each.endswith(f"/{table}.parquet"))
        sink = pa.BufferOutputStream()
        parquet.write_table(change(parquet.read_table(io.BytesIO(entries[name]))), sink)
        entries[name] = sink.getvalue().to_pybytes()

    return changed


def with_column(name: str, values: Callable[[pa.Table], Any]) -> Table:
    def change(table: pa.Table) -> pa.Table:
        bare = table.drop_columns([name]) if name in table.column_names else table
        return bare.append_column(name, values(table))

    return change


def not_utf8(rows: int) -> pa.Array:
    offsets = b"".join(place.to_bytes(4, "little") for place in range(rows + 1))
    return pa.Array.from_buffers(
        pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(b"\xff" * rows)]
    )


def without_table(entries: Entries) -> None:
    name = next(each for each in sorted(entries) if each.endswith("/results.parquet"))
    del entries[name]
    manifest = f"{name.rpartition('/')[0]}/artifact.json"
    data = json.loads(entries[manifest])
    del data["files"]["results.parquet"]
    entries[manifest] = json.dumps(data).encode()


POISONS = {
    "an extra column": in_table("results", with_column("extra", lambda table: pa.array([1] * len(table)))),
    "a text for numbers": in_table(
        "results", with_column("value", lambda table: table["value"].cast(pa.string()))
    ),
    "a fraction for whole numbers": in_table(
        "successes", with_column("step", lambda table: table["step"].cast(pa.float64()))
    ),
    "a number for texts": in_table(
        "question_results", with_column("question_id", lambda table: pa.array(range(len(table))))
    ),
    "no value where one is needed": in_table(
        "rewards", with_column("trajectory", lambda table: pa.array([None] * len(table), pa.int32()))
    ),
    "a number that is too large": in_table(
        "trajectories", with_column("tokens", lambda table: pa.array([2**40] * len(table)))
    ),
    "no column": in_table("calibrated_rewards", lambda table: table.drop_columns(["level"])),
    "a text that is not UTF-8": in_table(
        "results",
        with_column("metric", lambda table: not_utf8(len(table))),
    ),
    "no table": without_table,
    "a text as a size": with_value("artifact.json", "size", value="5"),
    "a list as the files of a manifest": with_value("artifact.json", "files", value=[]),
    "a number as a run": with_value("run.json", "run_id", value=5),
    "a plugin of another kind": with_value("plan.json", "plugins", "spy", value=[]),
    "a number as the name of a metric": with_value("plan.json", "metrics", 0, "name", value=5),
}


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.lock"
    }


@pytest.fixture
def unchanged(board: Path) -> Iterator[Path]:
    before = content_of(board)
    yield board
    assert content_of(board) == before


@pytest.mark.parametrize("poison", POISONS)
def test_a_poisoned_bundle_leaves_the_board_alone(
    bundle: Path, unchanged: Path, tmp_path: Path, poison: str
) -> None:
    wrong = poisoned(bundle, tmp_path, POISONS[poison])
    with pytest.raises(PrmcalError, match="poisoned"):
        merge(unchanged, [wrong])


def test_what_the_checks_miss_leaves_the_board_alone(
    bundle: Path, unchanged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = poisoned(
        bundle,
        tmp_path,
        in_table("results", with_column("value", lambda table: pa.array([0.5] * len(table)))),
    )

    def fails(*arguments: object, **options: object) -> None:
        raise ValueError("no room")

    monkeypatch.setattr(merging, "write_board", fails)
    with pytest.raises(ValueError, match="no room"):
        merge(unchanged, [other])


def test_the_board_can_still_be_extended_and_rebuilt(bundle: Path, board: Path, tmp_path: Path) -> None:
    assert merge(board, [bundle]).known
    assert rebuild_merged(board) > 0
