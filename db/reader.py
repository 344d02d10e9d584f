"""Short read-only connections on the published copy.

A caller that asks again and again (the dashboard) keeps its answers until :func:`fingerprint` changes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.connection import check_version, connect, engine_for
from prmcal.errors import MissingDatabaseError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Source", "connection_of", "fingerprint", "frame", "reading"]

Source = Path | sa.Connection
"""What a query reads: the path of a database file, or a connection made by :func:`reading`."""

# Within one process DuckDB shares an open file by its path: a second connection would still see the replaced
# file. With one connection at a time, each sees the file that has the name now.
_one_at_a_time = threading.RLock()


def fingerprint(path: Path) -> tuple[int, int, int] | None:
    """Return (modification time in ns, size, inode), which change with every publishing; None if absent."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextmanager
def reading(path: Path, patience: float = 5.0) -> Iterator[sa.Connection]:
    """Open a database file read-only for a moment. All queries on one connection see one state.

    Parameters
    ----------
    path : Path
        The published copy, :func:`prmcal.db.files.published_path`. The writer's own file works between transactions.
    patience : float
        Seconds to wait for a program that holds the file.

    Raises
    ------
    MissingDatabaseError
        If there is no such file.
    DamagedDatabaseError, DatabaseVersionError, LockedDatabaseError
        If it cannot be read.
    """
    if not path.is_file():
        raise MissingDatabaseError(
            f"There are no results in {path.parent} yet. Run a grid into this folder first."
        )
    with _one_at_a_time, connect(engine_for(path, read_only=True), path, patience) as connection:
        check_version(connection, path)
        yield connection


@contextmanager
def connection_of(source: Source) -> Iterator[sa.Connection]:
    """Yield the connection itself, or one opened by :func:`reading` for the block."""
    if isinstance(source, sa.Connection):
        yield source
    else:
        with reading(source) as connection:
            yield connection


def frame(source: Source, query: sa.Select[*tuple[Any, ...]]) -> pd.DataFrame:
    """Read the rows of a query. Whole-number columns that allow null come as ``Int64``."""
    import pandas as pd

    whole = {
        column.name: "Int64"
        for column in query.selected_columns
        if isinstance(column, sa.ColumnElement) and isinstance(column.type, sa.Integer)
    }
    with connection_of(source) as connection:
        return pd.read_sql(query, connection).astype(whole)
