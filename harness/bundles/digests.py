"""What a table contains, independent of the Parquet file that holds it.

The digest of a column is a hash of its type, its nulls and its values. It does not depend on compression, row groups,
dictionaries, the version of the Parquet writer, or the order of columns. Values are hashed as the bytes that Arrow
keeps of them, so no Python object is made of a row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.errors import DataError
from prmcal.harness.bundles.format import TableDigest
from prmcal.registry.messages import reading

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["HASHES", "column_digest", "digest_of", "read_table", "table_digests", "text_hashes"]

HASHES = "text_hashes"
"""The table with the hashes of trajectories."""

_DIGITS, _TEXT_DIGITS = 32, 16


def table_digests(file: Path) -> TableDigest:
    """Return the number of rows of a Parquet file, and the digest of each column.

    Raises
    ------
    DataError
        If the file is not Parquet, or a column has a type that no artifact has.
    """
    with reading(f"The table {file} cannot be read"):
        return digest_of(read_table(file))


def read_table(file: Path, check: Callable[[pq.FileMetaData, pa.Schema], None] | None = None) -> pa.Table:
    """Read a Parquet file with every different text kept once, which takes a third of the time.

    Parameters
    ----------
    file : Path
    check : callable, optional
        Receives the footer and the types of the columns before they are read. It may raise an error.
    """
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(file) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
        if check is not None:
            check(metadata, schema)
    texts = [field.name for field in schema if _is_text(field.type)]
    with parquet.ParquetFile(file, metadata=metadata, read_dictionary=texts) as opened:
        return opened.read(use_threads=False)


def digest_of(table: pa.Table) -> TableDigest:
    """Return the number of rows of a table, and the digest of each column. See :func:`table_digests`."""
    return TableDigest(table.num_rows, {name: column_digest(table[name]) for name in table.column_names})


def column_digest(column: pa.ChunkedArray) -> str:
    """Return the digest of a column.

    Text has one type, however it is stored: it is hashed as its different values in the order of their first rows, and
    the number of the value of each row. Two numbers are equal if their bits are: 0.0 and -0.0 are not.

    Raises
    ------
    DataError
        If its type is not a number, a truth value, text, a date or a time.
    """
    import pyarrow as pa

    found = hashlib.sha256()
    if _is_text(column.type) or pa.types.is_dictionary(column.type):
        values, numbers = _distinct(column)
        found.update(f"text {len(values)} {len(column)}\n".encode())
        _hash_nulls(found, values)
        _hash_text(found, values.fill_null(""))
        found.update(_bytes(numbers))
        return found.hexdigest()[:_DIGITS]
    array = _whole(column)
    found.update(f"{column.type} {len(column)}\n".encode())
    _hash_nulls(found, array)
    found.update(_bytes(array.fill_null(_zero(array.type)) if array.null_count else array))
    return found.hexdigest()[:_DIGITS]


def text_hashes(trajectories: pa.Table) -> pa.Table:
    """Return a short hash of the text of each trajectory, which tells equal texts without showing them.

    Parameters
    ----------
    trajectories : Table
        With the columns question_id, trajectory and text.

    Returns
    -------
    Table
        The columns question_id, trajectory, and text_hash: 16 hexadecimal digits of the SHA-256 of the question's id, a
        zero byte, and the text. Its rows have the order of the trajectories.
    """
    import pyarrow as pa

    ids, texts = trajectories["question_id"].to_pylist(), trajectories["text"].to_pylist()
    hashes = [
        hashlib.sha256(f"{each}\0{text}".encode()).hexdigest()[:_TEXT_DIGITS]
        for each, text in zip(ids, texts, strict=True)
    ]
    kept = trajectories.select(["question_id", "trajectory"])
    return kept.append_column("text_hash", pa.array(hashes, pa.large_string()))


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    import pyarrow as pa

    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _distinct(column: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Return the different texts of a column in the order of their first rows, and the number of the text of each row.

    A null is a text of its own.
    """
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = _whole(column.unify_dictionaries())
    first = array.indices.cast(pa.int32()).dictionary_encode("encode")
    values = array.dictionary.cast(pa.large_string()).take(first.dictionary)
    if len(values.unique()) < len(values):  # A file can have a text twice in its dictionary.
        return _distinct(pa.chunked_array([values.take(first.indices)]))
    return values, first.indices.cast(pa.int32())


def _hash_nulls(found: Any, array: pa.Array) -> None:
    found.update(_bytes(array.is_null()) if array.null_count else b"")
    found.update(b"\n")


def _bytes(array: pa.Array) -> memoryview:
    """Return the values of an array of a fixed width, as bytes. Truth values take one byte each."""
    import pyarrow as pa

    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = _width(array.type)
    buffer = array.buffers()[1]
    return (
        memoryview(buffer)[array.offset * width : (array.offset + len(array)) * width]
        if buffer
        else memoryview(b"")
    )


def _width(kind: pa.DataType) -> int:
    import pyarrow as pa

    simple = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)
    if not simple:
        raise DataError(f"A column of the type {kind} has no digest.")
    return int(kind.bit_width) // 8


def _zero(kind: pa.DataType) -> Any:
    import pyarrow as pa

    return pa.scalar(0, pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind)


def _hash_text(found: Any, array: pa.Array) -> None:
    import numpy as np

    _, offsets, values = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    found.update(np.ascontiguousarray(ends - ends[0]).data if len(array) else b"")
    if values is not None and len(array):
        found.update(memoryview(values)[ends[0] : ends[-1]])
