"""The digest of a table: the same for the same content however it is stored, and another for any other content."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.errors import DataError
from prmcal.harness.share.tables import digest_of, file_digest, text_hashes
from tests.mutations import FEW

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "reward": (pa.float64(), st.floats(allow_nan=False) | st.just(float("nan"))),
    "logit": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "step": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "correct": (pa.bool_(), st.booleans()),
    "answer": (pa.large_string(), st.sampled_from(["", "a", "b", "ä\0"]) | st.text(max_size=3)),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 12))
    return pa.table(
        {
            name: pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
            for name, (kind, values) in COLUMNS.items()
        }
    )


@FEW
@given(tables(), st.data())
def test_the_digests_do_not_depend_on_how_the_table_is_stored(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, data: st.DataObject
) -> None:
    file = tmp_path_factory.getbasetemp() / "table.parquet"
    cut = data.draw(st.integers(0, table.num_rows))
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)]).select(reversed(table.column_names))
    short = chunked.set_column(
        chunked.column_names.index("answer"), "answer", chunked["answer"].cast(pa.string())
    )
    encoded = chunked.set_column(
        chunked.column_names.index("answer"), "answer", chunked["answer"].dictionary_encode()
    )
    for version in (table, chunked, short, encoded):
        parquet.write_table(
            version,
            file,
            compression=data.draw(st.sampled_from(["none", "zstd", "snappy"])),
            use_dictionary=data.draw(st.booleans()),
            row_group_size=data.draw(st.integers(1, 20)),
        )
        assert file_digest(file) == digest_of(version) == digest_of(table)


@FEW
@given(tables().filter(lambda table: table.num_rows), st.data())
def test_another_value_gives_another_digest(table: pa.Table, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(table.column_names))
    kind, values = COLUMNS[name]
    row = data.draw(st.integers(0, table.num_rows - 1))
    changed = table[name].to_pylist()
    changed[row] = data.draw(st.none() | values)
    other = pa.array(changed, kind)
    before, after = digest_of(table), digest_of(table.set_column(table.column_names.index(name), name, other))
    same = repr(other[row].as_py()) == repr(table[name][row].as_py())  # -0.0 differs from 0.0
    assert (before == after) == same


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array(["ab", ""]), pa.array(["a", "b"])),
        (pa.array([None, "a"]), pa.array(["", "a"])),
        (pa.array([None, 0]), pa.array([0, 0])),
        (pa.array([1], pa.int32()), pa.array([1], pa.int64())),
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([], pa.int32()), pa.array([], pa.float64())),
        (pa.array(["a", "b", "a"]), pa.array(["b", "a", "b"])),
    ],
)
def test_contents_that_are_easily_confused_differ(first: pa.Array, second: pa.Array) -> None:
    assert digest_of(pa.table({"c": first})) != digest_of(pa.table({"c": second}))


def test_the_digest_of_a_table_stays_the_same_in_later_versions() -> None:
    table = pa.table(
        {"id": ["q1", None, "q1"], "k": pa.array([1, 2, None], pa.int32()), "r": [0.5, 1.0, 0.25]}
    )
    assert digest_of(table) == "6ab00c7df152011df5e89b6ea1335a30"
    # A bundle may leave out texts, and they have hashes of their own.
    assert digest_of(table.append_column("text", pa.array(["a", "b", "c"]))) == digest_of(table)


def test_a_column_of_lists_has_no_digest() -> None:
    with pytest.raises(DataError, match="type list"):
        digest_of(pa.table({"c": [[1], [2]]}))


def test_trajectories_are_told_apart_by_their_question_and_text() -> None:
    rows = [("q1", 0, "x"), ("q1", 1, "x"), ("q1", 2, "y"), ("q2", 0, "x")]
    ids, numbers, texts = map(list, zip(*rows, strict=True))
    hashes = text_hashes(pa.table({"question_id": ids, "trajectory": numbers, "text": texts}))[
        "text_hash"
    ].to_pylist()
    assert hashes[0] == hashes[1] and len(set(hashes)) == 3
