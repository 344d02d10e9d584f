"""Writing to a server: one writer at a time, one transaction for each merge, and the files that were merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from prmcal.db.layout import create_layout
from prmcal.db.migrations.steps import migrate
from prmcal.db.postgresql.connection import connect, layout_in
from prmcal.db.postgresql.content import replace_content
from prmcal.db.tables.base import SCHEMA_VERSION

__all__ = ["SharedTransaction", "writing"]

# The submissions, verifications and artifacts, from which every writer can build the whole leaderboard. They are no
# part of the layout: a database file has them beside it, in its folder.
_files = sa.Table(
    "shared_files",
    sa.MetaData(),
    sa.Column(
        "name", sa.Text(collation="C"), primary_key=True, comment="Path in the folder of the leaderboard"
    ),
    sa.Column("part", sa.Integer, primary_key=True, autoincrement=False, comment="Index of the part, from 0"),
    sa.Column("sha256", sa.Text, nullable=False, comment="SHA-256 of the file, in hexadecimal digits"),
    sa.Column("content", sa.LargeBinary, nullable=False, comment="The bytes of the part"),
    comment="The files of the leaderboard's folder that others need to extend it, in parts.",
)
_BYTES_IN_A_PART = 2**24

# The number of the lock, which only writers of leaderboards take.
_LOCK = 0x70726D63616C


class SharedTransaction:
    """An open transaction of :func:`writing`."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def files(self) -> dict[str, str]:
        """Return the SHA-256 of the files that the database has, by their names."""
        query = sa.select(_files.c.name, _files.c.sha256).where(_files.c.part == 0)
        return {row.name: row.sha256 for row in self._connection.execute(query)}

    def store(self, name: str, sha256: str, file: Path) -> None:
        """Store a file under a name, in place of what the database has under it."""
        self.remove(name)
        with file.open("rb") as opened:
            content, part = opened.read(_BYTES_IN_A_PART), 0
            while content or part == 0:
                row = {"name": name, "part": part, "sha256": sha256, "content": content}
                self._connection.execute(sa.insert(_files), row)
                content, part = opened.read(_BYTES_IN_A_PART), part + 1

    def remove(self, name: str) -> None:
        """Remove the file of that name, if there is one."""
        self._connection.execute(sa.delete(_files).where(_files.c.name == name))

    def fetch(self, name: str, file: Path) -> None:
        """Write the file of that name to a path."""
        of_name = sa.select(_files.c.content).where(_files.c.name == name).order_by(_files.c.part)
        with file.open("wb") as opened:
            for content in self._connection.scalars(of_name, execution_options={"yield_per": 1}):
                opened.write(content)

    def replace_content(self, file: sa.Connection) -> None:
        """Replace the leaderboard by that of a database file, given by a connection to it."""
        replace_content(self._connection, file)


@contextmanager
def writing(
    url: sa.URL, waiting: Callable[[str], None], patience: float = 600.0
) -> Iterator[SharedTransaction]:
    """Open the transaction of a writer. Either everything is stored or nothing; readers see the state before or after.

    Writers wait for each other. An empty database gets its tables, and one of an earlier layout is migrated.

    Parameters
    ----------
    url : URL
    waiting : callable
        Called with a line that tells for whom this writer waits. It is not called if no other writes now.
    patience : float
        Seconds to wait for another writer.

    Raises
    ------
    LockedDatabaseError
        If another writer is not done after that time.
    DatabaseError
        If the server cannot be reached or written, or the database has a newer layout. Nothing is changed then.
    """
    with connect(url) as connection, connection.begin():
        _lock(connection, url, waiting, patience)
        layout = layout_in(connection, url)
        if layout is None:
            create_layout(connection)
        elif layout < SCHEMA_VERSION:
            migrate(connection, layout)
        _files.create(connection, checkfirst=True)
        yield SharedTransaction(connection)


def _lock(connection: sa.Connection, url: sa.URL, waiting: Callable[[str], None], patience: float) -> None:
    """Take the lock of the writers, which the end of the transaction releases, however it ends."""
    if connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(_LOCK))):
        return
    waiting(f"{url} is being written by {_holder(connection)}. Waiting until that is done.")
    connection.execute(sa.select(sa.func.set_config("lock_timeout", f"{patience * 1000:.0f}", True)))
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def _holder(connection: sa.Connection) -> str:
    query = sa.text(
        "SELECT usename, client_addr::text, xact_start FROM pg_locks JOIN pg_stat_activity USING (pid) "
        "WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32) + objid::bigint = :lock "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    found = connection.execute(query, {"lock": _LOCK}).first()
    if found is None:
        return "another program"
    since = f" since {found.xact_start:%H:%M:%S %Z}" if found.xact_start else ""
    return f"'{found.usename}' on {found.client_addr or 'the same machine'}{since}"
