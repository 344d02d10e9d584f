"""Replacing the content of a server's database by that of a file, and the reverse.

Rows travel as CSV, the fastest form that both read and write without loss.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from prmcal.db.tables import Base, SchemaVersion

__all__ = ["copy_content", "replace_content"]

_ROWS = 100_000
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def replace_content(connection: sa.Connection, file: sa.Connection) -> None:
    """Replace the rows of all tables by those of a database file, in the transaction that is open.

    Readers see the earlier rows until the transaction is committed. PostgreSQL stores no character of code 0, which
    becomes U+FFFD.

    Parameters
    ----------
    connection : Connection
        A connection to a server whose database has the current layout.
    file : Connection
        A connection to the database file, from :func:`prmcal.db.reader.reading`.
    """
    for table in _tables():
        connection.execute(sa.delete(table))
        _copy(file, connection, table)


def copy_content(connection: sa.Connection, file: sa.Connection, folder: Path) -> None:
    """Copy the rows of all tables of a server into an empty database file, in the transaction that is open.

    Parameters
    ----------
    connection : Connection
        A connection to the server, from :func:`prmcal.db.postgresql.connection.reading`.
    file : Connection
        A connection to the database file, which has empty tables.
    folder : Path
        Where the rows of a table are written before the file reads them.
    """
    path = folder / "rows.csv"
    for table in _tables():
        server: Any = connection.connection.cursor()
        with (
            path.open("wb") as opened,
            server.copy(f"COPY {table.name} ({_names(table)}) TO STDOUT (FORMAT csv)") as copy,
        ):
            for part in copy:
                opened.write(part)
        if path.stat().st_size:
            file.exec_driver_sql(
                f"COPY {table.name} ({_names(table)}) FROM '{_quoted(path)}' "
                "(FORMAT csv, AUTO_DETECT false, PARALLEL false, HEADER false, DELIMITER ',', QUOTE '\"', ESCAPE '\"', "
                "NEW_LINE '\\n', NULLSTR '', ALLOW_QUOTED_NULLS false, MAX_LINE_SIZE 100000000)"
            )
    path.unlink()


def _tables() -> list[sa.Table]:
    return [table for table in Base.metadata.sorted_tables if table is not SchemaVersion.__table__]


def _names(table: sa.Table) -> str:
    return ", ".join(f'"{column.name}"' for column in table.columns)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _copy(file: sa.Connection, connection: sa.Connection, table: sa.Table) -> None:
    import pyarrow as pa
    from pyarrow import csv

    cursor: Any = file.execute(sa.select(*map(_plain, table.columns))).cursor
    server: Any = connection.connection.cursor()
    as_quoted = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    with server.copy(f"COPY {table.name} ({_names(table)}) FROM STDIN (FORMAT csv)") as copy:
        for batch in cursor.to_arrow_reader(_ROWS):
            sink = pa.BufferOutputStream()
            csv.write_csv(batch, sink, as_quoted)
            copy.write(sink.getvalue().to_pybytes())


def _plain(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    if isinstance(column.type, sa.JSON):
        return sa.cast(column, sa.Text).label(column.name)
    if isinstance(column.type, sa.Text):
        return sa.func.replace(column, sa.func.chr(0), _REPLACEMENT).label(column.name)
    return column
