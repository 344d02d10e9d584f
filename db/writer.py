"""The only writer of a database: short transactions, bulk loads and publishing.

writer = Writer(database_path(directory))
with writer.transaction(publish=True) as transaction:
    transaction.record([Job(...), Cell(...)])
    transaction.load("rewards", {job_key: parquet_files})

The files of many jobs or cells are read by one statement, which gets the owner of each file. A statement for each of
them takes several times as long, because the database then plans, scans and sorts thousands of times. Values of columns
travel through Arrow. As parameters of a statement, the rows take ten times as long.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.exc import DBAPIError

from prmcal.db import tables
from prmcal.db.queries.health import check_health
from prmcal.db.reader import connect, engine_for, folder_in_the_way, prepare_layout
from prmcal.db.run_folder import published_path
from prmcal.errors import DamagedDatabaseError, DatabaseStorageError, LoadError, MissingDatabaseError

_MEMORY, _THREADS = "1GiB", 4
"""The memory that DuckDB uses in a transaction, for any number of rows. The rest goes to the disk. Threads are limited,
because each of them needs memory of its own."""


@dataclass(frozen=True)
class Stored:
    """The results that a database has."""

    jobs: set[str]
    """The keys of the jobs whose artifacts are in it."""
    cells: dict[str, str | None]
    """The keys of the jobs that measured the finished cells, by the sorted ids of the cells."""
    ended: bool
    """True if the last run ended, so that its comparisons are stored, and was published."""


class Writer:
    """Writes a database file. Each file must have one writer at a time.

    The file is open, and locked for all other programs, only during a transaction. `patience` is the time in seconds to
    wait for another program that locks it. If it does not exist, it is created together with its folder. If a killed
    process has left it damaged, it is replaced by the published copy, or made anew without one. By default, `path` and
    `published` are :func:`prmcal.db.run_folder.database_path` and ``published_path`` of one folder. The files that it
    loads are in the folder `reads`, by default the folder of `path`. DuckDB has no access to other files.

    Raises a DatabaseVersionError if the file was written by another version of prmcal or DuckDB. Raises a
    DamagedDatabaseError if the file is damaged or was not written by prmcal. Raises a DatabaseStorageError if the
    folder cannot be written.
    """

    def __init__(
        self, path: Path, published: Path | None = None, patience: float = 30.0, reads: Path | None = None
    ) -> None:
        self.path = path
        self.published = published or published_path(path.parent)
        self._patience = patience
        self._engine = engine_for(path, reads=reads or path.parent)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            for leftover in path.parent.glob(f".{self.published.name}.*"):
                leftover.unlink()
        except OSError as error:
            raise DatabaseStorageError(f"{path.parent} cannot be written: {error.strerror}.") from error
        try:
            self._prepare()
        except DamagedDatabaseError:
            if not self._restored():
                raise
            self._prepare()

    @contextmanager
    def transaction(self, *, publish: bool = False) -> Iterator[Transaction]:
        """Open the file for the block, commit and close. Either everything is stored or nothing.

        Keep the block short: call ``record`` and ``load`` in it, and compute nothing. With `publish`, the new content
        then replaces the published copy in one step. If the process is killed, readers have the old copy or the new
        one. The file is copied as a whole, in a hundredth of the time that DuckDB needs to copy its tables.

        Raises a MissingDatabaseError if the file is gone.
        """
        with self._connected() as connection:
            with connection.begin():
                connection.exec_driver_sql(f"SET memory_limit = '{_MEMORY}'")
                connection.exec_driver_sql(f"SET threads = {min(_THREADS, os.cpu_count() or 1)}")
                yield Transaction(connection)
            if publish:
                connection.exec_driver_sql("CHECKPOINT")  # The file is complete when it is closed.
        if publish:
            self._copy()

    def stored(self) -> Stored:
        """Return which results the database has."""
        cells = sa.select(tables.Cell.cell_id, tables.Cell.job_key).where(tables.Cell.status == "done")
        latest = sa.select(tables.RunRow.status).order_by(tables.LAST_WRITTEN).limit(1)
        with self._connected() as connection:
            loaded = set(connection.scalars(sa.select(tables.JobRow.job_key).where(tables.JobRow.status == "done")))
            measured_by = {row.cell_id: row.job_key for row in connection.execute(cells.order_by(tables.Cell.cell_id))}
            ended = connection.execute(latest).scalar() in ("done", "failed") and self.published.exists()
        return Stored(loaded, measured_by, ended)

    def _copy(self) -> None:
        temporary = self._temporary()
        try:
            shutil.copyfile(self.path, temporary)
            temporary.replace(self.published)
        except IsADirectoryError as error:
            raise folder_in_the_way(self.published) from error
        except OSError as error:
            raise DatabaseStorageError(f"{self.published} cannot be written: {error.strerror}.") from error
        finally:
            temporary.unlink(missing_ok=True)

    def _connected(self) -> AbstractContextManager[sa.Connection]:
        if not self.path.exists():  # DuckDB would make a new file, without tables.
            why = "its folder was removed or renamed. Give it its old name, and run the same command again."
            raise MissingDatabaseError(f"{self.path} is gone: {why}")
        return connect(self._engine, self.path, self._patience)

    def _prepare(self) -> None:
        with connect(self._engine, self.path, self._patience) as connection, connection.begin():
            prepare_layout(connection, self.path)

    def _temporary(self) -> Path:
        return self.published.with_name(f".{self.published.name}.{os.getpid()}")

    def _restored(self) -> bool:
        """Replace a file that a killed process has damaged. Return whether one was damaged.

        DuckDB changes some blocks in place, so a process that is killed meanwhile leaves a block that is half old and
        half new. Its log is then still there, since DuckDB deletes it after the last block.
        """
        log = self.path.with_name(f"{self.path.name}.wal")
        if not log.exists():
            return False
        temporary = self._temporary()
        try:
            if self.published.exists():
                shutil.copyfile(self.published, temporary)
                temporary.replace(self.path)
            else:
                self.path.unlink()
            log.unlink()
        except OSError as error:
            raise DatabaseStorageError(f"{self.path} cannot be written: {error.strerror}.") from error
        finally:
            temporary.unlink(missing_ok=True)
        return True


Values = Sequence[Any] | NDArray[np.float64]
"""The values of a column."""

_VIEW = "rows_of_columns"

Files = Mapping[str, Sequence[Path]]
"""The Parquet files by the owner of their rows: a job's key, or a cell's id."""

_MOST_FILES, _MOST_BYTES = 500, 2**26
"""The limits of one statement: few enough files to be open at once, and few enough rows to be sorted in memory."""

_INSERT = """
INSERT INTO {table} ({owner}, {columns})
SELECT "$owner", {columns}
FROM read_parquet($paths, union_by_name = true, filename = '$path')
JOIN (SELECT unnest($names) AS "$owner", unnest($owned) AS "$path", unnest($numbers) AS "$number") USING ("$path")
ORDER BY "$number", {order}
"""


class Transaction:
    """An open transaction, from :meth:`prmcal.db.writer.Writer.transaction`. Queries can read its `connection`."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection

    def record(self, rows: Sequence[tables.Base]) -> None:
        """Insert rows into tables with a primary key. A row with the same key is replaced.

        Attributes of the models that are not set get the default of the column, or null.
        """
        by_table: dict[sa.Table, dict[Any, dict[str, Any]]] = defaultdict(dict)
        for row in rows:
            table = row.__table__
            assert isinstance(table, sa.Table)
            values = {column.name: _value(row, column) for column in table.columns}
            # The last of several rows with the same key wins, as with several calls.
            by_table[table][tuple(values[column.name] for column in table.primary_key)] = values
        for table, keyed in by_table.items():
            rows_of = list(keyed.values())
            columns = {column.name: [values[column.name] for values in rows_of] for column in table.columns}
            _insert_columns(self.connection, table, [columns])

    def load(self, table_name: str, files: Files) -> int:
        """Load Parquet files into a table without a primary key, such as ``rewards``. Return the number of rows.

        The rows of the files replace all rows of the given owners: of a cell by its id if the table has ``cell_id``,
        else of a job by its key. Loading the same files again changes nothing, and an owner without files has no rows
        afterwards. Rows are stored in the order of the owners. An owner's rows are in the order of the columns that
        identify them, independent of the order of its files. Columns are matched by name. Columns that allow null may
        be absent. Several owners may have the same file.

        Raises a LoadError if a file cannot be read or does not fit the table. The transaction must then be rolled back.
        """
        table = tables.Base.metadata.tables[table_name]
        owner = "cell_id" if "cell_id" in table.columns else "job_key"
        self.connection.exec_driver_sql(
            f"DELETE FROM {table.name} WHERE {owner} IN (SELECT unnest($names))", {"names": list(files)}
        )
        return sum(_insert(self.connection, table, owner, batch) for batch in _batches(files))

    def interrupt_runs(self) -> None:
        """Mark running runs as interrupted. When a new run begins, they were killed."""
        running = tables.RunRow.status == "running"
        self.connection.execute(sa.update(tables.RunRow).where(running).values(status="interrupted"))

    def prune(self, job_keys: Collection[str], cell_ids: Collection[str]) -> None:
        """Delete the rows of all other jobs and cells, and the description of the grid, which the caller writes again.

        Comparisons with another cell are deleted too.
        """
        for model in (tables.PluginRow, tables.DescribedMetric, tables.DatasetRow, tables.QuestionRow, tables.JobInput):
            self.connection.execute(sa.delete(model))
        jobs = set(self.connection.execute(sa.select(tables.JobRow.job_key)).scalars()) - set(job_keys)
        cells = set(self.connection.execute(sa.select(tables.Cell.cell_id)).scalars()) - set(cell_ids)
        for table in tables.Base.metadata.sorted_tables:
            of_cells = [name for name in ("cell_id", "cell_a", "cell_b") if name in table.columns]
            owners = of_cells or [name for name in ("job_key",) if name in table.columns]
            deleted = list(cells if of_cells else jobs)
            for owner in owners if deleted else ():
                self.connection.exec_driver_sql(
                    f"DELETE FROM {table.name} WHERE {owner} IN (SELECT unnest($deleted))", {"deleted": deleted}
                )

    def check_health(self) -> None:
        """Check the data of the database again, and replace the findings; see :mod:`prmcal.db.queries.health`."""
        self.connection.execute(sa.delete(tables.HealthCheck))
        self.record(check_health(self.connection))

    def replace_comparisons(self, batches: Iterable[Mapping[str, Values]]) -> None:
        """Replace all paired comparisons by batches of comparisons, each with the values of all columns."""
        table = tables.Base.metadata.tables[tables.Comparison.__tablename__]
        self.connection.execute(sa.delete(table))
        _insert_columns(self.connection, table, batches)


def _value(row: tables.Base, column: sa.Column[Any]) -> Any:
    value = getattr(row, column.name)
    if value is None and isinstance(column.default, sa.ColumnDefault):
        return column.default.arg
    return value


def _insert_columns(connection: sa.Connection, table: sa.Table, batches: Iterable[Mapping[str, Values]]) -> None:
    """Insert the values of columns, by their names. A row with the same primary key is replaced."""
    arrow_tables = [_arrow(table, batch) for batch in batches]
    if not arrow_tables:
        return
    # A statement for each small batch takes ten times as long.
    rows = pa.concat_tables(arrow_tables, promote_options="permissive")
    names = _quoted(rows.column_names)
    connection.connection.register(_VIEW, rows)
    connection.exec_driver_sql(f"INSERT OR REPLACE INTO {table.name} ({names}) SELECT {names} FROM {_VIEW}")


def _arrow(table: sa.Table, columns: Mapping[str, Values]) -> pa.Table:
    as_text = [column.name for column in table.columns if isinstance(column.type, sa.JSON)]
    return pa.table({**columns, **{name: [json.dumps(value) for value in columns[name]] for name in as_text}})


def _batches(files: Files) -> Iterator[dict[str, Sequence[Path]]]:
    """Yield batches of the files that one statement reads. All files of an owner are in one batch."""
    batch: dict[str, Sequence[Path]] = {}
    different: set[Path] = set()
    size = 0
    for name, paths in files.items():
        new = set(paths) - different
        added = sum(path.stat().st_size for path in new if path.exists())
        if batch and (len(different) + len(new) > _MOST_FILES or size + added > _MOST_BYTES):
            yield batch
            batch, different, size = {}, set(), 0
            new, added = set(paths), sum(path.stat().st_size for path in paths if path.exists())
        if paths:
            batch[name] = paths
            different |= new
            size += added
    if batch:
        yield batch


def _insert(connection: sa.Connection, table: sa.Table, owner: str, files: Files) -> int:
    rows = [(name, str(path), number) for number, (name, paths) in enumerate(files.items()) for path in paths]
    names, owned_paths, numbers = (list(column) for column in zip(*rows, strict=True))
    paths = list(dict.fromkeys(owned_paths))
    columns = _columns_of(table, paths, owner)
    order = [name for name in columns if table.columns[name].info]  # those that identify a row
    statement = _INSERT.format(table=table.name, owner=owner, columns=_quoted(columns), order=_quoted(order))
    values = {"paths": paths, "names": names, "owned": owned_paths, "numbers": numbers}
    try:
        return connection.exec_driver_sql(statement, values).scalar() or 0
    except DBAPIError as error:
        if "Conversion Error" in str(error.orig) or "Constraint Error" in str(error.orig):
            some = paths[0] if len(paths) == 1 else f"{paths[0]} (or one of {len(paths) - 1} more)"
            raise LoadError(f"{some} does not fit the table '{table.name}': {error.orig}") from error
        raise


def _columns_of(table: sa.Table, paths: Sequence[str], owner: str) -> list[str]:
    """Return the columns that the files have, after a check that each file fits the table."""
    names_in_files: set[str] = set()
    for path in paths:
        try:
            names = set(pq.read_schema(path).names)
        except (OSError, pa.ArrowInvalid) as error:
            raise LoadError(f"{path} is not a complete Parquet file: {error}.") from error
        unknown = sorted(names - (set(table.columns.keys()) - {owner}))
        if unknown:
            raise LoadError(
                f"{path} does not fit the table '{table.name}': it has the unknown column {', '.join(unknown)}."
            )
        names_in_files |= names
    return [column.name for column in table.columns if column.name in names_in_files]


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
