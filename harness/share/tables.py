"""Tables from elsewhere: their digests, and the check of their schemas and values in a process with limited memory.

The digest of a table is a hash of the names, the types, the nulls and the values of its columns but for texts, which a
bundle may leave out. It does not depend on compression, row groups, dictionaries, the version of the Parquet writer, or
the order of columns.

A small Parquet file can hold a table that no machine has room for, and a damaged one can crash the program that reads
it. So a process of its own reads the tables. It compares the footer with limits, and the columns with those that a run
writes: their names, their types, nulls, and the ranges of numbers that the database has room for.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.errors import BundleError, DataError, PrmcalError
from prmcal.registry.messages import reading, shown

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

HASHES, TEXT = "text_hashes", "text"
"""The table with the hashes of trajectories, and the column of tables that a bundle may leave out."""
_LEVEL = "question_level"
"""The database has texts for it, and an artifact has whole numbers if all levels are."""
_DIGITS, _TEXT_DIGITS = 32, 16
_MOST_ROWS, _MOST_COLUMNS, _MOST_BYTES = 2**26, 100, 2**31
"""The largest table. The bytes are those in memory, and those in its file before compression."""
_WIDTH = 8
"""Bytes of a value in memory, at most, besides a text."""
_MEMORY = 2**33
"""Bytes of addresses that the process may use, of which it has memory for a part."""

_MEASURED = ("results", "question_results", "replicates")
NEEDED: Mapping[str, Sequence[str]] = {
    "rollout": ("trajectories",),
    "success": ("successes",),
    "imported": ("trajectories", "successes"),
    "score": ("rewards",),
    "calibrated": ("calibrated_rewards",),
    "search": ("searches",),
    "calibration_metrics": (*_MEASURED, "reliability_bins", "signed_error_bins"),
    **dict.fromkeys(("strategy", "search_results"), _MEASURED),
    "league": (*_MEASURED, "league_points"),
}
"""The tables that each artifact has, by the kinds of jobs."""
# Tables that are only in artifacts. Those of all others are in the database.
_OWN_TABLES = {
    "replicates": {"metric": "string", "resampled": "string", "replicate": "int64", "value": "double"},
    "scored_tokens": {"question_id": "string", "trajectory": "int64", "tokens": "int64"},
    HASHES: {"question_id": "string", "trajectory": "int64", "text_hash": "string"},
}


def file_digest(file: Path) -> str:
    """Return the digest of the table in a Parquet file.

    Raises a DataError if the file is not Parquet, or a column has a type that no artifact has.
    """
    with reading(f"The table {file} cannot be read"):
        return digest_of(_read_table(file))


def digest_of(table: pa.Table) -> str:
    """Return the digest of a table: 32 hexadecimal digits. See :func:`file_digest`."""
    found = hashlib.sha256()
    for name in sorted(set(table.column_names) - {TEXT}):
        found.update(f"{name} {_column_digest(table[name])}\n".encode())
    return found.hexdigest()[:_DIGITS]


def text_hashes(trajectories: pa.Table) -> pa.Table:
    """Return a short hash of the text of each trajectory, which tells equal texts without showing them.

    The trajectories have the columns question_id, trajectory and text. The result has the first two in the same order,
    and text_hash: 16 hexadecimal digits of the SHA-256 of the question's id, a zero byte, and the text.
    """
    import pyarrow as pa

    ids, texts = trajectories["question_id"].to_pylist(), trajectories["text"].to_pylist()
    hashes = [
        hashlib.sha256(f"{each}\0{text}".encode()).hexdigest()[:_TEXT_DIGITS]
        for each, text in zip(ids, texts, strict=True)
    ]
    kept = trajectories.select(["question_id", "trajectory"])
    return kept.append_column("text_hash", pa.array(hashes, pa.large_string()))


def checked_digests(paths: Sequence[Path], where: str) -> list[str]:
    """Return the digests of tables. `where` is what they are part of, for the messages.

    Raises a BundleError if a table cannot be read within the limits, or is not one that a run writes.
    """
    if not paths:
        return []
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        input=json.dumps([str(path) for path in paths]),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) < len(paths):
        answers.append({"problem": "it ended the program that reads it"})
    for path, answer in zip(paths, answers, strict=False):
        if "problem" in answer:
            name = "/".join(path.parts[-3:])
            raise BundleError(f"{where}: the table {name} cannot be read: {answer['problem']}.")
    return [answer["digest"] for answer in answers]


def serve() -> None:
    """Read the paths of tables as JSON, and write a line of JSON for each: its digest, or the first problem."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for path in map(Path, json.load(sys.stdin)):
        try:
            with reading("", kind=BundleError):
                table = _read_table(path, limited=True)
                check_table(path.stem, table)
                answer = {"digest": digest_of(table)}
        except PrmcalError as error:
            answer = {"problem": str(error).removeprefix(": ").rstrip(".")}
        print(json.dumps(answer), flush=True)
        if "problem" in answer:
            return


def check_table(name: str, table: pa.Table) -> None:
    """Check that a table has columns that a run writes, with values that the database has room for.

    `name` is that of its file without the suffix. Raises a BundleError if a column is unknown, absent or there twice,
    or has another type or a null. Raises an ArrowInvalid if a number is too large, or a text is not UTF-8.
    """
    import pyarrow as pa

    schema = _schemas().get(name)
    if schema is None:
        raise BundleError("no run writes a table of this name")
    names = table.column_names
    for column in names:
        if column not in schema.names or names.count(column) > 1:
            raise BundleError(f"it has a column {shown(column)}, which no run writes")
    families = (_is_text, pa.types.is_boolean, pa.types.is_floating, pa.types.is_signed_integer)
    for field in schema:
        if field.name not in names:
            if not field.nullable:
                raise BundleError(f"it lacks the column '{field.name}'")
            continue
        values = table[field.name]
        kinds = [field.type, *([pa.int32()] if field.name == _LEVEL else [])]
        if not any(belongs(kind) and belongs(values.type) for kind in kinds for belongs in families):
            raise BundleError(
                f"its column '{field.name}' has the type {values.type}, and {field.type} is needed"
            )
        if values.null_count and not field.nullable:
            raise BundleError(f"its column '{field.name}' has {values.null_count:,} rows without a value")
        if pa.int32() in kinds and pa.types.is_integer(values.type):
            values.cast(pa.int32())  # This fails if a number is too large.
    table.validate(full=True)


@cache
def _schemas() -> dict[str, pa.Schema]:
    """Return the columns of the tables in artifacts. Each row needs a value of a column that is not nullable."""
    import pyarrow as pa
    import sqlalchemy as sa

    from prmcal.db.tables.runs import Base

    kinds: Mapping[type, str] = {
        sa.BigInteger: "int64",
        sa.Boolean: "bool",
        sa.Integer: "int32",
        sa.Double: "double",
        sa.REAL: "double",
        sa.Text: "string",
    }
    found = {
        name: pa.schema([pa.field(column, kind, nullable=False) for column, kind in own.items()])
        for name, own in _OWN_TABLES.items()
    }
    for table in Base.metadata.sorted_tables:
        if not table.primary_key.columns:
            columns = [
                (each, next(kinds[base] for base in kinds if isinstance(each.type, base)))
                for each in table.columns
                if each.name not in ("job_key", "cell_id")
            ]
            found[table.name] = pa.schema(
                [pa.field(each.name, kind, nullable=bool(each.nullable)) for each, kind in columns]
            )
    return found


def _read_table(file: Path, limited: bool = False) -> pa.Table:
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(file) as opened:
        if limited:
            _check_footer(opened.metadata, opened.schema_arrow)
        return opened.read(use_threads=False)


def _check_footer(metadata: pq.FileMetaData, schema: pa.Schema) -> None:
    """Compare what a footer says with the limits. The process has a limit too, because a footer can be wrong."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for what, found, most in (
        ("rows", metadata.num_rows, _MOST_ROWS),
        ("columns", len(schema), _MOST_COLUMNS),
        ("bytes", metadata.num_rows * len(schema) * _WIDTH, _MOST_BYTES),
        ("bytes", sum(group.total_byte_size for group in groups), _MOST_BYTES),
    ):
        if not 0 <= found <= most:
            raise BundleError(f"it says that it has {found:,} {what}, and {most:,} are the most")


def _column_digest(column: pa.ChunkedArray) -> str:
    """Return a hash of the type, the nulls and the values of a column. Two numbers are equal if their bits are."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as compute

    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(array.type) or pa.types.is_string(array.type):
        array = array.cast(pa.large_string())
    found = hashlib.sha256(f"{array.type} {len(array)}\n".encode())
    if array.null_count:
        found.update(array.is_null().to_numpy(zero_copy_only=False).tobytes())
    if _is_text(array.type):
        array = array.fill_null("")
        found.update(compute.binary_length(array).cast(pa.int64()).to_numpy().data)
        _, offsets, values = array.buffers()
        if values is not None and len(array):
            ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
            found.update(memoryview(values)[ends[0] : ends[-1]])
    elif (
        pa.types.is_boolean(array.type) or pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    ):
        filled = array.fill_null(pa.scalar(0).cast(array.type)) if array.null_count else array
        found.update(filled.to_numpy(zero_copy_only=False).tobytes())
    else:
        raise DataError(f"A column of the type {array.type} has no digest.")
    return found.hexdigest()


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
