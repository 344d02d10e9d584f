"""Bulk loads of Parquet files into the tables of a database file that have no primary key.

The files of many jobs or cells are read by one statement, which is told whose file each is. A statement for each of
them takes several times as long, because the database then plans, scans and sorts thousands of times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from prmcal.db.tables.base import Base
from prmcal.errors import LoadError

__all__ = ["Files", "load_files"]

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
