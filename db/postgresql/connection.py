"""Connections to a PostgreSQL server, with errors of the driver translated for users."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from prmcal.db.layout import has_tables, layout_of
from prmcal.db.tables.base import SCHEMA_VERSION
from prmcal.errors import (
    DatabaseError,
    DatabaseStorageError,
    DatabaseVersionError,
    LockedDatabaseError,
    MissingDatabaseError,
)

__all__ = ["connect", "layout_in", "reading", "reading_any_layout"]

_SECONDS_TO_CONNECT = 10
_NAME = "prmcal"

# States of SQL: https://www.postgresql.org/docs/current/errcodes-appendix.html
_NO_RIGHTS, _READ_ONLY, _NO_SUCH_DATABASE, _LOCK_TIMEOUT = "42501", "25006", "3D000", "55P03"
_REFUSED = ("authentication failed", "no password supplied", 'role "')
_DISK = ("53100", "58030")


@contextmanager
def reading(url: sa.URL) -> Iterator[sa.Connection]:
    """Connect to read. All queries on one connection see the same state, whatever others write meanwhile.

    Raises
    ------
    MissingDatabaseError
        If the database does not exist, or nothing was merged into it.
    DatabaseVersionError
        If it has another layout.
    DatabaseError
        If there is another problem with the server.
    """
    with reading_any_layout(url) as (connection, layout):
        if layout < SCHEMA_VERSION:
            raise DatabaseVersionError(
                f"{url} was written by an older version of prmcal (layout {layout}; this version uses "
                f"{SCHEMA_VERSION}). Migrate it: prmcal migrate ADDRESS"
            )
        yield connection


@contextmanager
def reading_any_layout(url: sa.URL) -> Iterator[tuple[sa.Connection, int]]:
    """Connect to read as :func:`reading`, also a database of an earlier layout. The layout is yielded, too."""
    options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with connect(url) as connection:
        connection.execution_options(**options)
        layout = layout_in(connection, url)
        if layout is None:
            raise MissingDatabaseError(
                f"There are no results in {url} yet. Merge some into it: prmcal merge OUT BUNDLE... --database ADDRESS"
            )
        yield connection, layout


@contextmanager
def connect(url: sa.URL) -> Iterator[sa.Connection]:
    """Open a connection to a server, and translate errors of the driver into errors that say what to do.

    Raises
    ------
    DatabaseError
        If there is a problem with the server. The subclass tells which. No message has the password.
    """
    try:
        with _engine(url).connect() as connection:
            yield connection
    except DBAPIError as error:
        if not type(error.orig).__module__.startswith("psycopg"):
            raise  # It is about a database file.
        # The driver's error is not shown with its cause, because it could repeat parts of the address.
        raise _meaning(url, error) from None


def layout_in(connection: sa.Connection, url: sa.URL) -> int | None:
    """Return the layout of a database, as :func:`prmcal.db.layout.layout_of` does; None if it is empty."""
    return layout_of(connection, str(url), "Use another database.") if has_tables(connection) else None


@functools.cache
def _engine(url: sa.URL) -> sa.Engine:
    try:
        return sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            poolclass=NullPool,
            connect_args={
                "connect_timeout": _SECONDS_TO_CONNECT,
                "application_name": _NAME,
                **url.query,
            },
        )
    except ModuleNotFoundError:
        raise DatabaseError(
            "PostgreSQL needs the package 'psycopg', which is not installed. "
            "Install it: pip install 'prmcal[postgresql]'"
        ) from None


def _meaning(url: sa.URL, error: DBAPIError) -> DatabaseError:
    message = str(error.orig).strip()
    line = (message.splitlines() or ["no message"])[-1 if "FATAL" in message else 0]
    if url.password:
        line = line.replace(str(url.password), "***")
    state = getattr(error.orig, "sqlstate", None)
    place = str(url)
    if state == _NO_SUCH_DATABASE or ("database" in line and "does not exist" in line):
        return MissingDatabaseError(
            f"{place} does not exist ({line}). Create it: createdb {url.database or 'NAME'}"
        )
    if state is None and any(each in line for each in _REFUSED):
        return DatabaseError(
            f"{place} refused the user or the password ({line}). Put the password into ~/.pgpass or into the variable "
            "PGPASSWORD."
        )
    if state in (_NO_RIGHTS, _READ_ONLY):
        return DatabaseError(
            f"{place} does not allow this ({line}). Ask its owner for the right to read, or to create and write tables."
        )
    if state == _LOCK_TIMEOUT:
        return LockedDatabaseError(f"{place} is still being written by another program. Try again later.")
    if state in _DISK:
        return DatabaseStorageError(f"{place} cannot be written ({line}). The database was not changed.")
    if state is None or state[:2] in ("08", "53", "57"):
        return DatabaseError(
            f"{place} cannot be reached ({line}). Check the host and the port, and that the server runs. The "
            "database was not changed."
        )
    return DatabaseError(f"{place} reported an error ({line}). The database was not changed.")
