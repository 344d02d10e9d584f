"""Tables from elsewhere: the check that they can be read with limited memory, and how two tables differ.

A small Parquet file can hold a table that fits on no machine, and a damaged file can crash the program that reads it.
So another process reads them, and first compares the footer with limits. The columns are checked when the database is
built from the tables, before the merged folder takes its place.
"""

import math
import multiprocessing
import resource
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prmcal.errors import DataError, PrmcalError
from prmcal.harness.execution.worker import starting_with
from prmcal.registry.messages import reading

_MOST_ROWS, _MOST_COLUMNS, _MOST_BYTES = 2**26, 100, 2**31
"""The largest table. The bytes are in memory, and in the file before compression."""
_WIDTH = 8
"""Bytes of a value in memory, at most, besides a text."""
_MEMORY = 2**33
"""Bytes of addresses that the process may use. Only a part of them is memory."""
RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""Numbers are equal if they are this close: other processors and libraries add them in another order."""


def check_tables(paths: Sequence[Path]) -> None:
    """Check that Parquet files can be read within the limits. Raises a DataError with the first problem."""
    if not paths:
        return
    context, limit = multiprocessing.get_context("spawn"), (resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with starting_with({}), ProcessPoolExecutor(1, context, resource.setrlimit, limit) as pool:
        answers = pool.map(_problem_of, paths, chunksize=64)
        for path in paths:
            try:
                problem = next(answers)
            except BrokenProcessPool:
                problem = "it, or one read with it, ended the program that reads it"
            if problem:
                raise DataError(f"The table {'/'.join(path.parts[-3:])} cannot be read: {problem}.")


def _problem_of(path: Path) -> str:
    """Return the problem of a table, without a full stop, or an empty text."""
    try:
        with reading(""), pq.ParquetFile(path) as opened:
            _check_footer(opened.metadata, opened.schema_arrow)
            opened.read(use_threads=False).validate(full=True)
    except PrmcalError as error:
        return str(error).removeprefix(": ").rstrip(".")
    return ""


def _check_footer(metadata: pq.FileMetaData, schema: pa.Schema) -> None:
    """Compare the numbers in a footer with the limits. The process has a limit too, because a footer can be wrong."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for what, count, limit in (
        ("rows", metadata.num_rows, _MOST_ROWS),
        ("columns", len(schema), _MOST_COLUMNS),
        ("bytes", metadata.num_rows * len(schema) * _WIDTH, _MOST_BYTES),
        ("bytes", sum(group.total_byte_size for group in groups), _MOST_BYTES),
    ):
        if not 0 <= count <= limit:
            raise DataError(f"it claims {count:,} {what}, but at most {limit:,} are allowed")


class ColumnDifference(NamedTuple):
    """The values of a column that differ between two tables."""

    column: str
    rows: int
    """How many rows differ. All values differ if the tables have other columns or other numbers of rows."""
    size: float
    """The largest difference of a number; NaN if the column has no numbers, or one of two is not finite."""


def differences(first_table: pa.Table, second_table: pa.Table) -> Iterator[ColumnDifference]:
    """Yield the columns in which two tables differ by more than rounding."""
    if first_table.column_names != second_table.column_names or len(first_table) != len(second_table):
        yield ColumnDifference("", max(len(first_table), len(second_table)), np.nan)
        return
    for column in first_table.column_names:
        if first_table[column].equals(second_table[column]):
            continue
        size = np.nan
        values, other_values = (table[column].to_pandas().astype(object) for table in (first_table, second_table))
        if all(pa.types.is_floating(table[column].type) for table in (first_table, second_table)):
            values, other_values = values.astype(float), other_values.astype(float)
            differs = ~np.isclose(values, other_values, RELATIVE, ABSOLUTE, equal_nan=True)
            size = float((values - other_values).abs()[differs].max()) if differs.any() else 0.0
        else:
            differs = ((values != other_values) & ~(values.isna() & other_values.isna())).to_numpy(bool)
        if differs.any():
            yield ColumnDifference(column, int(differs.sum()), size)


def result_differences(first_table: pa.Table, second_table: pa.Table) -> dict[str, float]:
    """Return by how much the results over all questions differ by more than rounding, by metric.

    The tables are those that an artifact calls ``results``. A metric of only one table is not compared.
    """
    values, other_values = (
        {row["metric"]: row["value"] for row in table.to_pylist() if row["question_level"] is None}
        for table in (first_table, second_table)
    )
    pairs = {metric: (value, other_values[metric]) for metric, value in values.items() if metric in other_values}
    return {
        metric: abs(value - other)
        for metric, (value, other) in pairs.items()
        if not math.isclose(value, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    }
