"""The only writer of a database: short transactions, bulk loads and publishing.

writer = Writer(database_path(directory))
with writer.transaction() as transaction:
    transaction.record([Job(...), Cell(...)])
    transaction.load("rewards", {job_key: parquet_files})
writer.publish()
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.loading import Files, insert_columns, load_files
from prmcal.db.reader import check_layout, connect, create_layout, engine_for, folder_in_the_way, has_tables
from prmcal.db.run_folder import published_path
from prmcal.db.tables import (
    Cell,
    Comparison,
    Dataset,
    DescribedMetric,
    Job,
    JobInput,
    Plugin,
    Question,
)
from prmcal.db.tables.runs import Base
from prmcal.errors import DamagedDatabaseError, DatabaseStorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prmcal.db.loading import Values
    from prmcal.db.statistics.paired import PairedDifferences


_MEMORY, _THREADS = "1GiB", 4
"""What DuckDB uses in a transaction, however many rows there are. What does not fit into the memory goes to the disk.
Threads are limited, because each of them needs memory of its own."""


@dataclass(frozen=True, eq=False)
class Compared:
    """Paired comparisons of cells by one metric.

    Attributes
    ----------
    leaderboard, metric : str
    first, second : sequence of str
        The ids of the cells of each pair.
    differences : PairedDifferences
    p_adjusted : ndarray of shape (pairs,), float64
        The p values after Holm's correction.
    """

    leaderboard: str
    metric: str
    first: Sequence[str]
    second: Sequence[str]
    differences: PairedDifferences
    p_adjusted: NDArray[np.float64]


class Transaction:
    """An open transaction, from :meth:`Writer.transaction`."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def record(self, rows: Sequence[Base]) -> None:
        """Insert rows into tables with a primary key. A row with the same key is replaced.

        Parameters
        ----------
        rows : sequence of Base
            Instances of the models. Attributes that are not set get the default of the column, or null.
        """
        by_table: dict[sa.Table, dict[Any, dict[str, Any]]] = defaultdict(dict)
        for row in rows:
            table = row.__table__
            assert isinstance(table, sa.Table)
            if not table.primary_key.columns:
                raise TypeError(f"The table '{table.name}' has no primary key. Write it with load().")
            values = {column.name: _value(row, column) for column in table.columns}
            # The last of several rows with the same key wins, as with several calls.
            by_table[table][tuple(values[column.name] for column in table.primary_key)] = values
        for table, keyed in by_table.items():
            rows_of = list(keyed.values())
            columns = {column.name: [values[column.name] for values in rows_of] for column in table.columns}
            insert_columns(self._connection, table, [columns])

    def load(self, table_name: str, files: Files) -> int:
        """Load Parquet files into a table without a primary key, such as ``rewards``.

        The rows of the files replace all rows of the given owners. Loading the same files again changes nothing, and
        an owner without files has no rows afterwards. Rows are stored in the order of the owners, and those of an owner
        in the order of the columns that identify them, independent of the order of its files.

        Parameters
        ----------
        table_name : str
            Any table without a primary key.
        files : mapping of str to sequence of Path
            The Parquet files of each owner: of a cell by its id if the table has ``cell_id``, else of a job by its key.
            Columns are matched by name. Columns that allow null may be absent. Several owners may have the same file.

        Returns
        -------
        int
            The number of rows loaded.

        Raises
        ------
        LoadError
            If a file cannot be read or does not fit the table. The transaction must then be rolled back.
        TypeError
            If there is no such table.
        """
        return load_files(self._connection, table_name, files)

    def prune(self, job_keys: Collection[str], cell_ids: Collection[str]) -> None:
        """Delete what belongs to an earlier form of the grid: all other jobs and cells, and what describes the grid.

        The caller writes plugins, metrics, data sets and questions again.
        """
        for described in (Plugin, DescribedMetric, Dataset, Question):
            self._connection.execute(sa.delete(described))
        known_jobs = sa.union(sa.select(Job.job_key), sa.select(JobInput.job_key))
        old_jobs = set(self._connection.execute(known_jobs).scalars()) - set(job_keys)
        old_cells = set(self._connection.execute(sa.select(Cell.cell_id)).scalars()) - set(cell_ids)
        for table in Base.metadata.sorted_tables:
            if "cell_id" in table.columns and old_cells:
                self._connection.execute(sa.delete(table).where(table.c.cell_id.in_(old_cells)))
            elif "cell_id" not in table.columns and "job_key" in table.columns and old_jobs:
                self._connection.execute(sa.delete(table).where(table.c.job_key.in_(old_jobs)))

    def replace_comparisons(self, compared: Iterable[Compared]) -> None:
        """Replace all paired comparisons."""
        table = Base.metadata.tables[Comparison.__tablename__]
        self._connection.execute(sa.delete(table))
        insert_columns(self._connection, table, map(_columns_of, compared))


class Writer:
    """Writes a database file. Each file must have one writer at a time.

    The file is open, and locked for all other programs, only during a transaction. If it does not exist, it is created
    together with its folder. If a process that was killed has left it damaged, it is replaced by the published copy,
    or made anew if there is none.

    Parameters
    ----------
    path : Path
        The file, usually :func:`prmcal.db.run_folder.database_path` of the output folder.
    published : Path, optional
        The copy for readers. Default: :func:`prmcal.db.run_folder.published_path` of the same folder.
    patience : float
        Seconds to wait for another program that locks the file.

    Raises
    ------
    DatabaseVersionError
        If the file was written by another version of prmcal or DuckDB.
    DamagedDatabaseError
        If the file is damaged or was not written by prmcal.
    DatabaseStorageError
        If the folder cannot be written.
    """

    def __init__(self, path: Path, published: Path | None = None, patience: float = 30.0) -> None:
        self.path = path
        self.published = published or published_path(path.parent)
        self._patience = patience
        self._engine = engine_for(path)
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
    def transaction(self) -> Iterator[Transaction]:
        """Open the file for the block, commit and close. Either everything is stored or nothing.

        Keep the block short: call ``record`` and ``load`` in it, and compute nothing.
        """
        with connect(self._engine, self.path, self._patience) as connection, connection.begin():
            connection.exec_driver_sql(f"SET memory_limit = '{_MEMORY}'")
            connection.exec_driver_sql(f"SET threads = {min(_THREADS, os.cpu_count() or 1)}")
            yield Transaction(connection)

    def record(self, rows: Sequence[Base]) -> None:
        """Call :meth:`Transaction.record` in a separate transaction."""
        with self.transaction() as transaction:
            transaction.record(rows)

    def load(self, table_name: str, files: Files) -> int:
        """Call :meth:`Transaction.load` in a separate transaction."""
        with self.transaction() as transaction:
            return transaction.load(table_name, files)

    def loaded_jobs(self) -> set[str]:
        """Return the keys of the jobs whose artifacts are in the database."""
        with connect(self._engine, self.path, self._patience) as connection:
            return set(connection.execute(sa.select(Job.job_key).where(Job.status == "done")).scalars())

    def finished_cells(self) -> dict[str, str | None]:
        """Return the keys of the jobs that measured the finished cells, by the sorted ids of the cells."""
        with connect(self._engine, self.path, self._patience) as connection:
            query = sa.select(Cell.cell_id, Cell.job_key).where(Cell.status == "done").order_by(Cell.cell_id)
            return {row.cell_id: row.job_key for row in connection.execute(query)}

    def publish(self) -> None:
        """Replace the published copy by the current content in one step.

        Readers see either the old copy or the new one. If the process is killed, the old copy stays. The file is copied
        as it is, which takes a hundredth of the time in which DuckDB copies its tables.
        """
        temporary = self._temporary()
        with self._completed():
            try:
                temporary.unlink(missing_ok=True)
                shutil.copyfile(self.path, temporary)
                temporary.replace(self.published)
            finally:
                temporary.unlink(missing_ok=True)

    def finish(self) -> None:
        """Rename the file to that of the readers, so that the disk has it once. Then this writer is of no more use."""
        with self._completed():
            self.path.replace(self.published)

    @contextmanager
    def _completed(self) -> Iterator[None]:
        """Let the block read or move the file, which is complete and closed then."""
        try:
            with connect(self._engine, self.path, self._patience) as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT")
                connection.exec_driver_sql("CHECKPOINT")  # The file is complete when it is closed.
            yield
        except IsADirectoryError as error:
            raise folder_in_the_way(self.published) from error
        except OSError as error:
            raise DatabaseStorageError(f"{self.published} cannot be written: {error.strerror}.") from error

    def _prepare(self) -> None:
        with connect(self._engine, self.path, self._patience) as connection, connection.begin():
            if has_tables(connection):
                check_layout(connection, self.path)
            else:  # The file is new, or its process was killed before the first commit.
                create_layout(connection)

    def _temporary(self) -> Path:
        return self.published.with_name(f".{self.published.name}.{os.getpid()}")

    def _restored(self) -> bool:
        """Replace a file that a killed process has damaged. Return whether one did.

        DuckDB changes some blocks in place, so a process that is killed meanwhile leaves a block that is half old and
        half new. It also leaves its log, which it deletes after the last block.
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


def _value(row: Base, column: sa.Column[Any]) -> Any:
    value = getattr(row, column.name)
    if value is None and isinstance(column.default, sa.ColumnDefault):
        return column.default.arg
    return value


def _columns_of(compared: Compared) -> dict[str, Values]:
    found, pairs = compared.differences, len(compared.first)
    return {
        "leaderboard": [compared.leaderboard] * pairs,
        "metric": [compared.metric] * pairs,
        "cell_a": compared.first,
        "cell_b": compared.second,
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p_value": found.p_value,
        "p_adjusted": compared.p_adjusted,
        "questions": [found.questions] * pairs,
    }
