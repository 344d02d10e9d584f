"""The layout of a database: the version of its tables, which earlier and later versions of prmcal may have written."""

from __future__ import annotations

import sqlalchemy as sa

from prmcal.db.tables import Base, SchemaVersion
from prmcal.db.tables.base import SCHEMA_VERSION
from prmcal.errors import DamagedDatabaseError, DatabaseVersionError

__all__ = ["OLDEST_LAYOUT", "create_layout", "has_tables", "layout_of"]

OLDEST_LAYOUT = 5
"""The oldest layout that can be migrated to the current one."""

# Both kinds of database have this table. It also has the tables that a user of a server may not read.
_TABLES = "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"


def has_tables(connection: sa.Connection) -> bool:
    """Return whether a database has any tables, of prmcal or of another program."""
    return bool(connection.exec_driver_sql(_TABLES).scalar())


def create_layout(connection: sa.Connection) -> None:
    """Create all tables of the current layout in an empty database."""
    Base.metadata.create_all(connection)
    connection.execute(sa.insert(SchemaVersion).values(version=SCHEMA_VERSION))


def layout_of(connection: sa.Connection, place: str, advice: str) -> int:
    """Return the layout of a database, from :data:`OLDEST_LAYOUT` to the current one.

    Parameters
    ----------
    connection : Connection
    place : str
        Where the database is, for messages.
    advice : str
        What to do about a layout that is too old to be migrated.

    Raises
    ------
    DamagedDatabaseError
        If prmcal did not write the database.
    DatabaseVersionError
        If the layout is newer, or too old.
    """
    described = connection.exec_driver_sql(f"{_TABLES} AND tablename = 'schema_version'").scalar()
    found: int | None = connection.scalar(sa.select(SchemaVersion.version)) if described else None
    if found is None:
        raise DamagedDatabaseError(
            f"{place} is a database that prmcal did not write. Choose another place or move it."
        )
    if found > SCHEMA_VERSION:
        raise DatabaseVersionError(
            f"{place} was written by a newer version of prmcal (layout {found}; this version uses "
            f"{SCHEMA_VERSION}). Upgrade prmcal to open it. Nothing was changed."
        )
    if found < OLDEST_LAYOUT:
        raise DatabaseVersionError(
            f"{place} was written by an older version of prmcal (layout {found}; this version uses "
            f"{SCHEMA_VERSION} and reads {OLDEST_LAYOUT} and later). {advice}"
        )
    return found
