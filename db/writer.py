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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from prmcal.db.loading import Files, Transaction
from prmcal.db.reader import connect, engine_for, folder_in_the_way, prepare_layout
from prmcal.db.run_folder import published_path
from prmcal.db.tables import Cell, Job
from prmcal.db.tables.runs import Base
from prmcal.errors import DamagedDatabaseError, DatabaseStorageError

_MEMORY, _THREADS = "1GiB", 4
"""What DuckDB uses in a transaction, however many rows there are. What does not fit into the memory goes to the disk.
Threads are limited, because each of them needs memory of its own."""


class Writer:
    """Writes a database file. Each file must have one writer at a time.

    The file is open, and locked for all other programs, only during a transaction. `patience` is the time in seconds to
    wait for another program that locks it. If it does not exist, it is created together with its folder. If a process
    that was killed has left it damaged, it is replaced by the published copy, or made anew if there is none. By
    default, `path` and `published` are :func:`prmcal.db.run_folder.database_path` and ``published_path`` of one folder.

    Raises a DatabaseVersionError if the file was written by another version of prmcal or DuckDB. Raises a
    DamagedDatabaseError if the file is damaged or was not written by prmcal. Raises a DatabaseStorageError if the
    folder cannot be written.
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
            prepare_layout(connection, self.path)

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
