"""Bundles as strangers may send them: each is refused with one clear error, and nothing is left on the disk."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prmcal.errors import BundleError, DataError, StorageError
from prmcal.harness.share.bundle import (
    FORMAT,
    SUBMISSION_FILE,
    described,
    extract,
    read_submission,
    write_archive,
)
from prmcal.harness.share.checks import unpack
from prmcal.harness.share.tables import checked_digests
from tests.mutations import FEW, TEXTS

Entries = dict[str, bytes]
Change = Callable[[Entries], object]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """Every test of this module writes below one folder, and unpacks to `out` in it."""
    yield
    assert not [path.name for path in tmp_path.iterdir() if "out" in path.name]


def refused(bundle: Path, folder: Path, message: str) -> None:
    with pytest.raises(BundleError, match=message) as raised:
        unpack(bundle, folder / "out")
    assert isinstance(raised.value, DataError) and "\n" not in str(raised.value)


def entries_of(bundle: Path, folder: Path) -> Entries:
    folder.mkdir()
    return {name: (folder / name).read_bytes() for name in extract(bundle, folder)}


def write(entries: Entries, path: Path) -> Path:
    with path.open("wb") as file:
        write_archive(entries, file)
    return path


def forged(bundle: Path, folder: Path, change: Change) -> Path:
    """A bundle whose list of files fits its changed files, as a forger would make it."""
    entries = entries_of(bundle, folder / "entries")
    before = read_submission(entries.pop(SUBMISSION_FILE), "")
    change(entries)
    files = {name: described(content) for name, content in entries.items()}
    files = {
        name: replace(each, table=before.files[name].table if name in before.files else "0" * 32)
        if name.endswith(".parquet")
        else each
        for name, each in files.items()
    }
    entries[SUBMISSION_FILE] = replace(before, files=files).to_bytes()
    return write(entries, folder / "forged")


@settings(FEW, max_examples=20)
@given(st.data())
def test_a_flipped_byte_is_noticed_or_changes_nothing(
    bundle: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(bundle.read_bytes())
    # The last part has the directory of the archive, the first one has small files with long headers.
    place = data.draw(st.integers(0, len(content) - 1) | st.integers(0, 5000) | st.integers(-6000, -1))
    content[place] ^= data.draw(st.integers(1, 255))
    folder = tmp_path_factory.mktemp("flipped")
    (folder / "bundle").write_bytes(content)
    try:
        found = unpack(folder / "bundle", folder / "unpacked")
    except BundleError:
        assert [path.name for path in folder.iterdir()] == ["bundle"]
    else:
        assert found == unpack(bundle, folder / "original")


@settings(FEW, max_examples=20)
@given(st.data())
def test_a_bundle_that_was_cut_off_is_noticed(
    bundle: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bundle.read_bytes()
    end = data.draw(st.integers(0, len(content) - 1) | st.integers(len(content) - 30, len(content) - 1))
    folder = tmp_path_factory.mktemp("cut")
    (folder / "bundle").write_bytes(content[:end])
    refused(folder / "bundle", folder, "is not a bundle")
    assert [path.name for path in folder.iterdir()] == ["bundle"]


@pytest.mark.parametrize(
    "name",
    [
        "../x.json",
        "/tmp/x.json",
        "a/../../x",
        "a\\..\\x",
        "C:/x",
        "./x",
        "a//b",
        ".x",
        "",
        "a\x00b",
        "ä",
        "x" * 300,
    ],
)
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "bundle", "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"x")
    refused(tmp_path / "bundle", tmp_path, "has an entry with the name|has no submission.json")
    with pytest.raises(BundleError, match="cannot be written"):
        write({name: b"x"}, tmp_path / "again")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("a.json", "a.json"), ("a.json", "A.json"), ("b.json", "a.json")])
def test_names_that_are_there_twice_or_out_of_order_are_refused(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    with zipfile.ZipFile(tmp_path / "bundle", "w") as archive:
        for name in names:
            archive.writestr(name, b"{}")
    refused(tmp_path / "bundle", tmp_path, "two entries with one name|not in order")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bomb_is_not_unpacked(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "bundle", "w", method) as archive:
        archive.writestr("submission.json", bytes(2**24))
    refused(tmp_path / "bundle", tmp_path, "is compressed")
    # Also if it claims to be something else than it is.
    content = (tmp_path / "bundle").read_bytes()
    number = method.to_bytes(2, "little")
    (tmp_path / "bundle").write_bytes(content.replace(number + b"\x00\x00", b"\x00\x00\x00\x00"))
    refused(tmp_path / "bundle", tmp_path, "is not a bundle")


def test_what_is_no_file_and_no_bundle_is_told(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").touch()
    refused(tmp_path / "text", tmp_path, "is not a bundle: .*Ask the submitter for it again")
    refused(tmp_path / "empty", tmp_path, "is not a bundle")
    refused(tmp_path, tmp_path, "is a folder")
    refused(tmp_path / "none", tmp_path, "is no file")
    with zipfile.ZipFile(tmp_path / "zip", "w"):
        pass
    refused(tmp_path / "zip", tmp_path, "has no submission.json")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    with pytest.raises(StorageError, match="not an empty folder"):
        unpack(bundle, tmp_path / "full")


def test_a_later_format_says_to_update(bundle: Path, tmp_path: Path) -> None:
    entries = entries_of(bundle, tmp_path / "entries")
    text = entries[SUBMISSION_FILE].decode()
    for found, message in (
        ("2", f"has format 2, and this version of prmcal reads format {FORMAT}. Install a later"),
        ("true", "says no format"),
        ('"1"', "says no format"),
        ("0", "says no format"),
    ):
        entries[SUBMISSION_FILE] = text.replace('"format":1', f'"format":{found}').encode()
        refused(write(entries, tmp_path / "bundle"), tmp_path, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace('"licence":"CC-BY-4.0"', '"licence":"CC-BY-4.0","licence":"MIT"'),
            "not written as",
        ),
        (lambda text: text.replace('"note":"First try."', '"note":5'), "cannot be read"),
        (
            lambda text: text.replace('"note":"First try."', f'"note":"{"x" * 20_000}"'),
            "The note is too long: it has 20,000 characters",
        ),
        (
            lambda text: text.replace('"models":false', '"models":false,"more":1'),
            "not written as|cannot be read",
        ),
        (lambda text: "[" * 100_000, "nested too deeply"),
        (lambda text: text[:-20], "is not JSON"),
        (lambda text: "[]", "says no format"),
    ],
)
def test_a_damaged_submission_is_refused(
    bundle: Path, tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    entries = entries_of(bundle, tmp_path / "entries")
    text = entries[SUBMISSION_FILE].decode()
    assert change(text) != text
    entries[SUBMISSION_FILE] = change(text).encode()
    refused(write(entries, tmp_path / "bundle"), tmp_path, message)


def test_the_files_are_those_of_the_list(bundle: Path, tmp_path: Path) -> None:
    entries = entries_of(bundle, tmp_path / "entries")
    table = next(name for name in entries if name.endswith("/rewards.parquet"))
    without = {name: content for name, content in entries.items() if name != table}
    refused(write(without, tmp_path / "bundle"), tmp_path, f"lacks a file that its list has: {table}")
    more = {**entries, "artifacts/score/more.parquet": b""}
    refused(write(more, tmp_path / "bundle"), tmp_path, "has a file that its list lacks")
    other = {**entries, table: entries[table] + b"x"}
    refused(write(other, tmp_path / "bundle"), tmp_path, f"{table} has other bytes than its list says")
    bare = {name: content for name, content in entries.items() if name != SUBMISSION_FILE}
    refused(write(bare, tmp_path / "bundle"), tmp_path, "has no submission.json")


def changed_record(**fields: object) -> Change:
    def change(entries: Entries) -> None:
        entries["run.json"] = json.dumps({**json.loads(entries["run.json"]), **fields}).encode()

    return change


def changed_cell(**fields: object) -> Change:
    def change(entries: Entries) -> None:
        data = json.loads(entries["plan.json"])
        data["cells"][0] |= fields
        entries["plan.json"] = json.dumps(data).encode()

    return change


def changed_manifest(entries: Entries) -> None:
    name = next(each for each in entries if each.endswith("artifact.json"))
    entries[name] = entries[name].replace(b'"seconds"', b'"minutes"')


def other_manifest(entries: Entries) -> None:
    first, second = [
        each for each in entries if each.startswith("artifacts/score/") and "artifact.json" in each
    ][:2]
    entries[first] = entries[second]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed_record(plugin_files=["/tmp/evil.py"]), "names files of its submitter's machine"),
        (changed_record(environment={"user": "ada"}), "has a record that prmcal did not write"),
        (changed_record(grid={"name": "other"}), "it is the plan of another grid"),
        (changed_record(started_at="yesterday"), "damaged"),
        (lambda entries: entries.pop("run.json"), "lacks the file run.json"),
        (lambda entries: entries.pop("plan.json"), "lacks the file plan.json"),
        (lambda entries: entries.update({"plan.json": b"[" * 100_000}), "damaged"),
        (lambda entries: entries.update({"failures.json": b"{"}), "Invalid JSON"),
        (lambda entries: entries.update({"artifacts/fit/x/model.pkl": b"x"}), "of a kind that no run writes"),
        (lambda entries: entries.update({"artifacts/fit/x/a.json": b"{}"}), "that its plan does not need"),
        (lambda entries: entries.update({"results.json": b"{}"}), "that its plan does not need"),
        (changed_cell(strategy=["best"]), r"plan\.json is damaged"),
        (changed_cell(target=float("nan")), r"plan\.json is damaged"),
        (changed_cell(level=1.5), r"plan\.json is damaged"),
        (changed_cell(labels={"llm": "", "dataset": "nano-math"}), r"plan\.json is damaged"),
        (changed_cell(labels={"llm": "weak (seed 2)", "dataset": "nano-math"}), r"Got 'weak \(seed 2\)'"),
        (changed_manifest, "manifest of .* cannot be read"),
        (other_manifest, "manifest of .* does not have its files"),
        (
            lambda entries: entries.pop(next(each for each in entries if "artifact.json" in each)),
            "has no manifest",
        ),
    ],
)
def test_a_forged_bundle_that_is_no_run_is_refused(
    bundle: Path, tmp_path: Path, change: Change, message: str
) -> None:
    refused(forged(bundle, tmp_path, change), tmp_path, message)


@settings(FEW, max_examples=20)
@given(st.sampled_from(["run.json", "plan.json", "failures.json"]), TEXTS, st.integers(0, 10_000))
def test_hostile_json_gives_no_traceback(
    bundle: Path, tmp_path_factory: pytest.TempPathFactory, name: str, text: str, place: int
) -> None:
    folder = tmp_path_factory.mktemp("json")

    def change(entries: Entries) -> None:
        content = entries[name]
        cut = place % (len(content) - 1)
        entries[name] = content[:cut] + text.encode("utf-8", "surrogatepass") + content[cut:]

    try:
        unpack(forged(bundle, folder, change), folder / "out")
    except BundleError:
        assert not (folder / "out").exists()


def table_that_lies(entries: Entries) -> None:
    name = next(each for each in entries if each.endswith("/rewards.parquet"))
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table({"reward": [0.5]}), sink)
    content = sink.getvalue().to_pybytes()
    entries[name] = content
    manifest = name.replace("rewards.parquet", "artifact.json")
    data = json.loads(entries[manifest])
    data["files"]["rewards.parquet"] = [len(content), described(content).sha256]
    entries[manifest] = json.dumps(data).encode()


def test_the_digests_of_the_list_are_compared_with_the_tables(bundle: Path, tmp_path: Path) -> None:
    refused(forged(bundle, tmp_path, table_that_lies), tmp_path, "lacks the column .question_id.")


def many_copies() -> pa.Table:
    """A gigabyte of rows of one long text, in a file of a few kilobytes."""
    indices = pa.array(np.zeros(100_000, np.int32))
    return pa.table({"text": pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 100_000]))})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (many_copies(), "no run writes a table of this name"),
        (pa.table({"n": pa.nulls(2**26 + 1, pa.int8())}), "67,108,865 rows"),
        (pa.table({f"c{number}": [1] for number in range(101)}), "101 columns"),
        (pa.table({"c": [[1, 2]]}), "no run writes a table of this name"),
    ],
)
def test_a_table_that_is_a_bomb_is_not_read(tmp_path: Path, table: pa.Table, message: str) -> None:
    parquet.write_table(table, tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 200_000
    with pytest.raises(BundleError, match=message):
        list(checked_digests([tmp_path / "a.parquet"], "the bundle"))


@pytest.mark.parametrize("seed", range(5))
def test_a_damaged_table_gives_one_error(tmp_path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    parquet.write_table(
        pa.table({"a": range(50), "b": [str(each % 7) for each in range(50)]}), tmp_path / "a.parquet"
    )
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    for place in draw.integers(0, len(content), 20):
        content[place] = draw.integers(0, 256)
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(BundleError, match=r"the bundle: the table .*a\.parquet cannot be read"):
        list(checked_digests([tmp_path / "a.parquet"], "the bundle"))
