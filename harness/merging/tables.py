"""Tables from elsewhere: the check of their columns and values with limited memory, and how two tables differ.

A small Parquet file can hold a table that no machine has room for, and a damaged one can crash the program that reads
it. So a process of its own reads them. It compares the footer with limits, and the columns with those that a run
writes: their names, their types and nulls.
"""

from __future__ import annotations

import math
import multiprocessing
import resource
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prmcal.errors import DataError, PrmcalError
from prmcal.harness.execution.worker import starting_with
from prmcal.registry.messages import reading, shown

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_LEVEL = "question_level"
"""The database has texts for it, and an artifact has whole numbers if all levels are."""
_MOST_ROWS, _MOST_COLUMNS, _MOST_BYTES = 2**26, 100, 2**31
"""The largest table. The bytes are those in memory, and those in its file before compression."""
_WIDTH = 8
"""Bytes of a value in memory, at most, besides a text."""
_MEMORY = 2**33
"""Bytes of addresses that the process may use, of which it has memory for a part."""

_COMPLETION = {
    **{"text": "string", "tokens": "int64", "prompt_tokens": "int64", "finish_reason": "string"},
    **{"correct": "bool", "request": "string"},
}
_OPTIONAL = ("correct", "reward")
# Tables that are only in artifacts. Those of all others are in the database.
_OWN_TABLES = {
    "texts": {"question_id": "string", "trajectory": "int64", "steps": "int64", **_COMPLETION},
    "follow_ups": {"question_id": "string", "prefix": "string", "number": "int64", **_COMPLETION},
    "searched": {
        **{"question_id": "string", "text": "string", "steps": "int64", "reward": "double"},
        **{"finished": "int64", "rounds": "int64", "generations": "int64"},
        **{"generated_tokens": "int64", "prefill_tokens": "int64", "scored_tokens": "int64"},
    },
    "finished": {"question_id": "string", "text": "string"},
    "replicates": {"metric": "string", "resampled": "string", "replicate": "int64", "value": "double"},
    "scored_tokens": {"question_id": "string", "trajectory": "int64", "tokens": "int64"},
    "hidden_prefixes": {
        **{"question_id": "string", "trajectory": "int64", "step": "int64"},
        **{"leaf": "int64", "logit": "double"},
    },
}


def check_tables(paths: Sequence[Path]) -> None:
    """Check that Parquet files have tables that a run writes, and that they can be read within the limits.

    Raises a DataError with the first problem.
    """
    if not paths:
        return
    with (
        starting_with({}),
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _limit_memory) as pool,
    ):
        answers = pool.map(_problem_of, paths, chunksize=64)
        for path in paths:
            try:
                problem = next(answers)
            except BrokenProcessPool:
                problem = "it, or one read with it, ended the program that reads it"
            if problem:
                raise DataError(f"The table {'/'.join(path.parts[-3:])} cannot be read: {problem}.")


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _problem_of(path: Path) -> str:
    """Return what is wrong with a table, without a full stop; empty if nothing is."""
    import pyarrow.parquet as parquet

    try:
        with reading(""), parquet.ParquetFile(path) as opened:
            _check_footer(opened.metadata, opened.schema_arrow)
            check_table(path.stem, opened.read(use_threads=False))
    except PrmcalError as error:
        return str(error).removeprefix(": ").rstrip(".")
    return ""


def _check_footer(metadata: pq.FileMetaData, schema: pa.Schema) -> None:
    """Compare what a footer says with the limits. The process has a limit too, because a footer can be wrong."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for what, count, most in (
        ("rows", metadata.num_rows, _MOST_ROWS),
        ("columns", len(schema), _MOST_COLUMNS),
        ("bytes", metadata.num_rows * len(schema) * _WIDTH, _MOST_BYTES),
        ("bytes", sum(group.total_byte_size for group in groups), _MOST_BYTES),
    ):
        if not 0 <= count <= most:
            raise DataError(f"it says that it has {count:,} {what}, and {most:,} are the most")


def check_table(name: str, table: pa.Table) -> None:
    """Check that a table has columns that a run writes, with values that the database has room for.

    `name` is that of its file without the suffix. Raises a DataError if a column is unknown, absent or there twice, or
    has another type or a null. Raises an ArrowInvalid if a number is too large, or a text is not UTF-8.
    """
    import pyarrow as pa

    schema = _schemas().get(name)
    if schema is None:
        raise DataError("no run writes a table of this name")
    names = table.column_names
    for column in names:
        if column not in schema.names or names.count(column) > 1:
            raise DataError(f"it has a column {shown(column)}, which no run writes")
    families = (_is_text, pa.types.is_boolean, pa.types.is_floating, pa.types.is_signed_integer)
    for field in schema:
        if field.name not in names:
            if not field.nullable:
                raise DataError(f"it lacks the column '{field.name}'")
            continue
        values = table[field.name]
        kinds = [field.type, *([pa.int32()] if field.name == _LEVEL else [])]
        if not any(belongs(kind) and belongs(values.type) for kind in kinds for belongs in families):
            raise DataError(
                f"its column '{field.name}' has the type {values.type}, and {field.type} is needed"
            )
        if values.null_count and not field.nullable:
            raise DataError(f"its column '{field.name}' has {values.null_count:,} rows without a value")
        if pa.int32() in kinds and pa.types.is_integer(values.type):
            values.cast(pa.int32())  # This fails if a number is too large.
    table.validate(full=True)


@cache
def _schemas() -> dict[str, pa.Schema]:
    """Return the columns of the tables in artifacts. Each row needs a value of a column that is not nullable."""
    import pyarrow as pa
    import sqlalchemy as sa

    from prmcal.db.tables.runs import Base

    types: Mapping[type, str] = {
        sa.BigInteger: "int64",
        sa.Boolean: "bool",
        sa.Integer: "int32",
        sa.Double: "double",
        sa.REAL: "double",
        sa.Text: "string",
    }
    schemas = {
        name: pa.schema(
            [pa.field(column, kind, nullable=column in _OPTIONAL) for column, kind in columns.items()]
        )
        for name, columns in _OWN_TABLES.items()
    }
    for table in Base.metadata.sorted_tables:
        if not table.primary_key.columns:
            schemas[table.name] = pa.schema(
                pa.field(
                    column.name,
                    next(types[base] for base in types if isinstance(column.type, base)),
                    nullable=bool(column.nullable),
                )
                for column in table.columns
                if column.name not in ("job_key", "cell_id")
            )
    return schemas


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""Numbers are equal if they are this close: other processors and libraries add them in another order."""


class Difference(NamedTuple):
    """The values of a column that differ between two tables."""

    column: str
    rows: int
    """How many rows differ. All of them do if the tables have other columns or other numbers of rows."""
    size: float
    """The largest difference of a number; NaN if the column has no numbers, or one of two is not finite."""


def differences(one: pa.Table, other: pa.Table) -> Iterator[Difference]:
    """Yield the columns in which two tables differ by more than rounding."""
    import numpy as np
    import pyarrow as pa

    if one.column_names != other.column_names or len(one) != len(other):
        yield Difference("", max(len(one), len(other)), np.nan)
        return
    for column in one.column_names:
        if one[column].equals(other[column]):
            continue
        size = np.nan
        first, second = (table[column].to_pandas().astype(object) for table in (one, other))
        if all(pa.types.is_floating(table[column].type) for table in (one, other)):
            first, second = first.astype(float), second.astype(float)
            apart = ~np.isclose(first, second, RELATIVE, ABSOLUTE, equal_nan=True)
            size = float((first - second).abs()[apart].max()) if apart.any() else 0.0
        else:
            apart = ((first != second) & ~(first.isna() & second.isna())).to_numpy(bool)
        if apart.any():
            yield Difference(column, int(apart.sum()), size)


def result_differences(one: pa.Table, other: pa.Table) -> dict[str, float]:
    """Return by how much the results over all questions differ by more than rounding, by metric.

    The tables are those that an artifact calls ``results``. A metric that only one has is not compared.
    """
    first, second = (
        {row["metric"]: row["value"] for row in table.to_pylist() if row["question_level"] is None}
        for table in (one, other)
    )
    return {
        metric: abs(first[metric] - second[metric])
        for metric in first
        if metric in second
        and not math.isclose(first[metric], second[metric], rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    }
