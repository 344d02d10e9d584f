"""Inserts of rows as columns, into tables of a database file that have a primary key.

The values travel through Arrow. As parameters of a statement, they take ten times as long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Values = Sequence[Any] | NDArray[np.float64]

__all__ = ["insert_columns"]

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
            _insert(connection, table, waiting)
            waiting, rows = [], 0
    if waiting:
        _insert(connection, table, waiting)


def _insert(connection: sa.Connection, table: sa.Table, parts: Sequence[pa.Table]) -> None:
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
