"""Rows on their way into a database file: from Parquet files of many jobs or cells, and from columns of values.

The files of many jobs or cells are read by one statement, which gets the owner of each file. A statement for each of
them takes several times as long, because the database then plans, scans and sorts thousands of times. Values of columns
travel through Arrow. As parameters of a statement, they take ten times as long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from prmcal.db.tables import Base
from prmcal.errors import LoadError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Values = Sequence[Any] | NDArray[np.float64]


_VIEW = "rows_of_columns"
_ROWS = 2**17
"""Rows that one statement inserts, or a part more. A statement for each small part takes ten times as long."""


def insert_columns(connection: sa.Connection, table: sa.Table, parts: Iterable[Mapping[str, Values]]) -> None:
    """Insert rows. A row with the same primary key is replaced.

    Parameters
    ----------
    connection : Connection
        In a transaction.
    table : Table
    parts : iterable of mapping of str to (sequence or ndarray) of shape (rows,)
        The values of each column, by its name. All parts have the same columns. No two rows have the same primary key.
    """
    waiting: list[pa.Table] = []
    rows = 0
    for part in parts:
        waiting.append(_arrow(table, part))
        rows += waiting[-1].num_rows
        if rows >= _ROWS:
            _insert_rows(connection, table, waiting)
            waiting, rows = [], 0
    if waiting:
        _insert_rows(connection, table, waiting)


def _insert_rows(connection: sa.Connection, table: sa.Table, parts: Sequence[pa.Table]) -> None:
    import pyarrow as pa

    rows = pa.concat_tables(parts)
    names = ", ".join(f'"{name}"' for name in rows.column_names)
    connection.exec_driver_sql("register", (_VIEW, rows))
    connection.exec_driver_sql(f"INSERT OR REPLACE INTO {table.name} ({names}) SELECT {names} FROM {_VIEW}")


def _arrow(table: sa.Table, columns: Mapping[str, Values]) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: _array(table.columns[name], values) for name, values in columns.items()})


def _array(column: sa.Column[Any], values: Values) -> pa.Array:
    import pyarrow as pa

    if isinstance(column.type, sa.JSON):
        return pa.array([json.dumps(value) for value in values], pa.string())
    return pa.array(values, _kind(column.type))


def _kind(column: sa.types.TypeEngine[Any]) -> pa.DataType:
    import pyarrow as pa

    kinds = {
        sa.Boolean: pa.bool_(),
        sa.Integer: pa.int64(),
        sa.Double: pa.float64(),
        sa.DateTime: pa.timestamp("us"),
        sa.Text: pa.large_string(),
    }
    return next(kind for base, kind in kinds.items() if isinstance(column, base))


Files = Mapping[str, Sequence[Path]]
"""The Parquet files of each owner of rows: of a job by its key, or of a cell by its id."""

_MOST_FILES, _MOST_BYTES = 500, 2**26
"""What one statement reads: few enough files to be open at once, and few enough rows to be sorted in memory."""

_INSERT = """
INSERT INTO {table} ({owner}, {columns})
SELECT "$owner", {columns}
FROM read_parquet($paths, union_by_name = true, filename = '$path')
JOIN (SELECT unnest($names) AS "$owner", unnest($own) AS "$path", unnest($places) AS "$place") USING ("$path")
ORDER BY "$place", {order}
"""


def load_files(connection: sa.Connection, table_name: str, files: Files) -> int:
    """Replace the rows of owners by those of their files. See :meth:`prmcal.db.writer.Transaction.load`."""
    table = _table(table_name)
    owner = "cell_id" if "cell_id" in table.columns else "job_key"
    for name, paths in files.items():
        if len(set(paths)) < len(paths):
            raise LoadError(f"A file of {name} for the table '{table_name}' is given twice: {_some(paths)}.")
    connection.exec_driver_sql(
        f"DELETE FROM {table.name} WHERE {owner} IN (SELECT unnest($names))", {"names": list(files)}
    )
    return sum(_insert(connection, table, owner, batch) for batch in _batches(files))


def _batches(files: Files) -> Iterator[dict[str, Sequence[Path]]]:
    """Yield parts of the files that one statement reads. All files of an owner are in one part."""
    part: dict[str, Sequence[Path]] = {}
    different: set[Path] = set()
    size = 0
    for name, paths in files.items():
        new = set(paths) - different
        added = sum(path.stat().st_size for path in new if path.exists())
        if part and (len(different) + len(new) > _MOST_FILES or size + added > _MOST_BYTES):
            yield part
            part, different, size = {}, set(), 0
            new, added = set(paths), sum(path.stat().st_size for path in paths if path.exists())
        if paths:
            part[name] = paths
            different |= new
            size += added
    if part:
        yield part


def _insert(connection: sa.Connection, table: sa.Table, owner: str, files: Files) -> int:
    given = [(name, str(path), place) for place, (name, paths) in enumerate(files.items()) for path in paths]
    names, own, places = (list(each) for each in zip(*given, strict=True))
    paths = list(dict.fromkeys(own))
    columns = _columns_of(table, paths, owner)
    order = [column.name for column in _identity(table) if column.name in columns]
    statement = _INSERT.format(table=table.name, owner=owner, columns=_quoted(columns), order=_quoted(order))
    values = {"paths": paths, "names": names, "own": own, "places": places}
    try:
        return connection.exec_driver_sql(statement, values).scalar() or 0
    except DBAPIError as error:
        if "Conversion Error" in str(error.orig) or "Constraint Error" in str(error.orig):
            raise LoadError(f"{_some(paths)} does not fit the table '{table.name}': {error.orig}") from error
        raise


def _table(name: str) -> sa.Table:
    known = {table.name: table for table in Base.metadata.sorted_tables if not table.primary_key.columns}
    if name not in known:
        raise TypeError(f"load() writes to {', '.join(sorted(known))}. Got '{name}'.")
    return known[name]


def _identity(table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
    mapper = next(mapper for mapper in Base.registry.mappers if mapper.local_table is table)
    return tuple(mapper.primary_key)


def _columns_of(table: sa.Table, paths: Sequence[str], owner: str) -> list[str]:
    """Return the columns that the files have, after a check that each file fits the table."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    found: set[str] = set()
    for path in paths:
        try:
            names = set(parquet.read_schema(path).names)
        except (OSError, pa.ArrowInvalid) as error:
            raise LoadError(f"{path} is not a complete Parquet file: {error}.") from error
        unknown = sorted(names - (set(table.columns.keys()) - {owner}))
        missing = sorted(
            column.name
            for column in table.columns
            if not column.nullable and column.name not in names | {owner}
        )
        if unknown or missing:
            problem = (
                f"lacks {', '.join(missing)}" if missing else f"has the unknown column {', '.join(unknown)}"
            )
            raise LoadError(f"{path} does not fit the table '{table.name}': it {problem}.")
        found |= names
    return [column.name for column in table.columns if column.name in found]


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _some(paths: Sequence[Any]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} (or one of {len(paths) - 1} more)"
