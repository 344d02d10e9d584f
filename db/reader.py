"""Connections to a database file: for a writer, and short read-only ones to the published copy."""

import json
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from prmcal import errors
from prmcal.db import dialect
from prmcal.db.run_folder import artifacts_root
from prmcal.db.tables import Base, SchemaVersion
from prmcal.db.tables.runs import SCHEMA_VERSION

if TYPE_CHECKING:
    import pandas as pd


_LOCKED = ("Conflicting lock is held", "Could not set lock on file")
_DISK = ("No space left", "File too large", "Disk quota exceeded", "Read-only file system", "Permission denied")
_OTHER_FORMAT = ("but we can only read version", "newer version of DuckDB", "older version of DuckDB")
_DAMAGED = (
    "not a valid DuckDB database file",
    "Corrupt database file",
    "computed checksum",
    "INTERNAL Error",
    "Serialization Error",
    "Failure while replaying WAL",
    "Could not read enough bytes",
    "disabled by configuration",
    "disabled through configuration",
)
_TABLES = "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


_CLOSED = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
"""A file must not make DuckDB fetch or load code."""
_MAGIC = slice(8, 12), b"DUCK"


def engine_for(path: Path, *, read_only: bool = False, reads: Path | None = None) -> sa.Engine:
    """Make an engine without a connection pool: closing a connection releases the lock of the file.

    Its connections can only access files in the folder `reads`, since a view could name any file.
    """
    url = sa.URL.create(dialect.URL, database=str(path))
    engine = sa.create_engine(url, poolclass=NullPool, connect_args={"read_only": read_only, "config": _CLOSED})

    @sa.event.listens_for(engine, "connect")
    def close(connection: Any, _: object) -> None:
        # The artifacts may be on another disk.
        folders = [] if reads is None else [str(folder.resolve()) for folder in (reads, artifacts_root(reads))]
        connection.execute("SET allowed_directories = $folders", {"folders": folders})
        connection.execute("SET enable_external_access = false")

    return engine


def _check_file(path: Path) -> None:
    """Raise a DamagedDatabaseError unless there is no file, or an empty one, or one that DuckDB has written."""
    try:
        if path.is_dir():
            raise folder_in_the_way(path)
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:  # DuckDB says what it is.
        return
    if head and head[_MAGIC[0]] != _MAGIC[1]:
        raise errors.DamagedDatabaseError(f"{path} is damaged (it is no DuckDB database). {_rebuild(path)}")


@contextmanager
def connect(engine: sa.Engine, path: Path, patience: float) -> Iterator[sa.Connection]:
    """Open a connection. Wait up to `patience` seconds for a program that locks the file.

    Raises a LockedDatabaseError if the file is still locked after that time. Raises a DatabaseError if there is another
    problem with the file. The subclass defines which files.
    """
    end = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while True:
        try:
            with driver_errors(path):
                _check_file(path)
                connection = engine.connect()
            break
        except errors.LockedDatabaseError:
            if time.monotonic() >= end:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    with connection, driver_errors(path):
        yield connection


@contextmanager
def driver_errors(path: Path) -> Iterator[None]:
    """Translate errors of the driver into errors with advice."""
    try:
        yield
    except (DBAPIError, duckdb.Error) as error:
        meaning = _meaning(path, str(getattr(error, "orig", error)))
        if meaning is None:
            raise
        raise meaning from error


def prepare_layout(connection: sa.Connection, path: Path) -> None:
    """Create all tables in an empty database, or call :func:`check_layout` for another. Create the views.

    A database is empty if its file is new, or if its process was killed before the first commit.
    """
    if connection.exec_driver_sql(_TABLES).scalar():
        check_layout(connection, path)
    else:
        statements: list[str] = []  # One script of all takes a third of the time.
        url = sa.URL.create(dialect.URL)
        mock = sa.create_mock_engine(url, lambda ddl, *_: statements.append(str(ddl.compile(connection))))
        Base.metadata.create_all(mock)
        connection.exec_driver_sql(";".join(statements))
        connection.execute(sa.insert(SchemaVersion).values(version=SCHEMA_VERSION))
    connection.exec_driver_sql(Path(__file__).with_name("views.sql").read_text(encoding="utf-8"))


def check_layout(connection: sa.Connection, path: Path) -> None:
    """Check that a database file has the current layout.

    Raises a DamagedDatabaseError if prmcal did not write the file. Raises a DatabaseVersionError if an older or a newer
    version of prmcal wrote it.
    """
    has_version = connection.exec_driver_sql(f"{_TABLES} AND tablename = 'schema_version'").scalar()
    version: int | None = connection.scalar(sa.select(SchemaVersion.version)) if has_version else None
    if version is None:
        raise errors.DamagedDatabaseError(
            f"{path} is a database that prmcal did not write. Choose another folder or move it."
        )
    if version != SCHEMA_VERSION:
        newer = version > SCHEMA_VERSION
        remedy = (
            "Upgrade prmcal to open it. Nothing was changed."
            if newer
            else f"{_rebuild(path)}, or run its grid into a new folder."
        )
        raise errors.DatabaseVersionError(
            f"{path} was written by {'a newer' if newer else 'an older'} version of prmcal (layout {version}; this "
            f"version uses {SCHEMA_VERSION}). {remedy}"
        )


def folder_in_the_way(path: Path) -> errors.DamagedDatabaseError:
    """Return the error for a folder where the database belongs."""
    return errors.DamagedDatabaseError(
        f"{path} is a folder, where the database belongs. Remove or rename it. {_rebuild(path)}"
    )


def _rebuild(path: Path) -> str:
    return f"Build the database again from the artifacts: prmcal rebuild {path.parent}"


def _meaning(path: Path, message: str) -> errors.DatabaseError | None:
    first_line = message.strip().splitlines()[0] if message.strip() else "no message"
    if any(mark in message for mark in _LOCKED):
        return errors.LockedDatabaseError(
            f"{path} is open in another program ({first_line}). Close that program and try again."
        )
    if any(mark in message for mark in _DISK):
        return errors.DatabaseStorageError(
            f"{path} cannot be written or read ({first_line}). Free some space, or allow access to the file and its "
            "folder, then run the same command again: stored results are kept."
        )
    if any(mark in message for mark in _OTHER_FORMAT):
        return errors.DatabaseVersionError(
            f"{path} was written by another version of DuckDB ({first_line}). Upgrade the 'duckdb' package."
        )
    if any(mark in message for mark in _DAMAGED):
        return errors.DamagedDatabaseError(f"{path} is damaged ({first_line}). {_rebuild(path)}")
    if "database does not exist" in message or "No such file or directory" in message:
        return errors.MissingDatabaseError(f"There is no database {path}. Run a grid into this folder first.")
    return None


# SQLAlchemy executes by DB-API. Of its results DuckDB 2 says that they are copied for Arrow.
warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")

Source = Path | sa.Connection
"""The source of a query: the path of a database file, or a connection from :func:`reading`."""

# Connections of one process to one path share the file that DuckDB opened first, even after it was replaced. With one
# connection at a time, each connection opens the current file.
_one_at_a_time = threading.RLock()

_DTYPES = {sa.Integer: "Int64", sa.REAL: "float32"}


def fingerprint(path: Path) -> tuple[int, int, int] | None:
    """Return (modification time in ns, size, inode), which change when a run publishes; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextmanager
def reading(path: Path, patience: float = 5.0) -> Iterator[sa.Connection]:
    """Open a database read-only for a short time. All queries on one connection see the same state.

    `path` is the published copy, :func:`prmcal.db.run_folder.published_path`. The file of the writer can be opened only
    between its transactions. `patience` is the time in seconds to wait for a program that locks the file. Raises a
    MissingDatabaseError if there is no such file. Raises a DamagedDatabaseError, a DatabaseVersionError or a
    LockedDatabaseError if the file cannot be read.
    """
    if fingerprint(path) is None:
        raise errors.MissingDatabaseError(
            f"There are no results in {path.parent} yet. Run a grid into this folder first."
        )
    with _one_at_a_time, connect(engine_for(path, read_only=True), path, patience) as connection:
        check_layout(connection, path)
        yield connection


@contextmanager
def connection_of(source: Source) -> Iterator[sa.Connection]:
    """Yield `source` if it is a connection, else a connection from :func:`reading`."""
    if isinstance(source, sa.Connection):
        yield source
    else:
        with reading(source) as connection:
            yield connection


def frame(source: Source, query: sa.Select[*tuple[Any, ...]]) -> "pd.DataFrame":
    """Return the rows of a query.

    Arrow carries the rows, ten times as fast as one by one. Integer columns have the dtype ``Int64``, which allows
    missing values. A missing text is None, also in a column that has no text at all.
    """
    columns = [column for column in query.selected_columns if isinstance(column, sa.ColumnElement)]
    types = {column.name: _DTYPES[kind] for column in columns for kind in _DTYPES if isinstance(column.type, kind)}
    with connection_of(source) as connection:
        cursor: Any = connection.execute(query).cursor
        rows: pd.DataFrame = cursor.to_arrow_table().to_pandas()
    for name in rows.columns[rows.isna().all()]:
        rows[name] = None
    for column in columns:
        if isinstance(column.type, sa.JSON):
            rows[column.name] = [json.loads(text) if isinstance(text, str) else None for text in rows[column.name]]
    # Difficulties are numbers if all of them are whole numbers. The database has them as text.
    if "question_level" in rows and rows["question_level"].dropna().astype(str).str.fullmatch(r"-?\d+").all():
        types["question_level"] = "Int64"
    return rows.astype(types)


def known_levels(levels: Iterable[Any]) -> list[Any]:
    """Return the difficulties of a column that occur, each once: numbers, then words."""
    import pandas as pd

    distinct = pd.unique(pd.Series(list(levels), dtype=object).dropna())
    words = {level: not str(level).isdecimal() for level in distinct}
    return sorted(distinct, key=lambda level: (words[level], 0 if words[level] else int(level), str(level)))
