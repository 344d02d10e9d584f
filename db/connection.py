"""Connections to a database file, with errors of the driver translated for users."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from prmcal.db.layout import layout_of
from prmcal.errors import (
    DamagedDatabaseError,
    DatabaseError,
    DatabaseStorageError,
    DatabaseVersionError,
    LockedDatabaseError,
    MissingDatabaseError,
)

__all__ = ["connect", "driver_errors", "engine_for", "folder_in_the_way", "layout_in"]

_LOCKED = ("Conflicting lock is held", "Could not set lock on file")
_DISK = (
    "No space left",
    "File too large",
    "Disk quota exceeded",
    "Read-only file system",
    "Permission denied",
)
_OTHER_FORMAT = ("but we can only read version", "newer version of DuckDB", "older version of DuckDB")
_DAMAGED = (
    "not a valid DuckDB database file",
    "Corrupt database file",
    "computed checksum",
    "INTERNAL Error",
    "Serialization Error",
    "Failure while replaying WAL",
    "Could not read enough bytes",
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


def engine_for(path: Path, *, read_only: bool = False) -> sa.Engine:
    """Make an engine without a connection pool: closing a connection releases the lock of the file."""
    url = sa.URL.create("duckdb", database=str(path))
    return sa.create_engine(url, poolclass=NullPool, connect_args={"read_only": read_only})


@contextmanager
def connect(engine: sa.Engine, path: Path, patience: float) -> Iterator[sa.Connection]:
    """Open a connection. Wait up to `patience` seconds for a program that locks the file.

    Raises
    ------
    LockedDatabaseError
        If the file is still locked after that time.
    DatabaseError
        If there is another problem with the file. The subclass tells which.
    """
    end = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while True:
        try:
            with driver_errors(path):
                connection = engine.connect()
            break
        except LockedDatabaseError:
            if time.monotonic() >= end:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    with connection, driver_errors(path):
        yield connection


@contextmanager
def driver_errors(path: Path) -> Iterator[None]:
    """Translate errors of the driver into errors that say what to do."""
    try:
        yield
    except DBAPIError as error:
        meaning = _meaning(path, str(error.orig))
        if meaning is None:
            raise
        raise meaning from error


def layout_in(connection: sa.Connection, path: Path) -> int:
    """Return the layout of a database file, as :func:`prmcal.db.layout.layout_of` does."""
    return layout_of(connection, str(path), _rebuild(path))


def folder_in_the_way(path: Path) -> DamagedDatabaseError:
    """Return the error for a folder in the place of a database."""
    return DamagedDatabaseError(
        f"{path} is a folder, where the database belongs. Remove or rename it. {_rebuild(path)}"
    )


def _rebuild(path: Path) -> str:
    return f"Build the database again from the artifacts: prmcal rebuild {path.parent}"


def _meaning(path: Path, message: str) -> DatabaseError | None:
    first_line = message.strip().splitlines()[0] if message.strip() else "no message"
    if any(mark in message for mark in _LOCKED):
        return LockedDatabaseError(
            f"{path} is open in another program ({first_line}). Close that program and try again."
        )
    if any(mark in message for mark in _DISK):
        return DatabaseStorageError(
            f"{path} cannot be written ({first_line}). Free some space or make the folder writable, "
            "then run the same command again: stored results are kept."
        )
    if "Is a directory" in message:
        return folder_in_the_way(path)
    if any(mark in message for mark in _OTHER_FORMAT):
        return DatabaseVersionError(
            f"{path} was written by another version of DuckDB ({first_line}). Upgrade the 'duckdb' package."
        )
    if any(mark in message for mark in _DAMAGED):
        return DamagedDatabaseError(f"{path} is damaged ({first_line}). {_rebuild(path)}")
    if "database does not exist" in message or "No such file or directory" in message:
        return MissingDatabaseError(f"There is no database {path}. Run a grid into this folder first.")
    return None
