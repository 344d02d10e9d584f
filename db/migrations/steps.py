"""The migrations in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from prmcal.db.tables.base import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alembic.operations import Operations

__all__ = ["migrate"]


def migrate(connection: sa.Connection, layout: int) -> None:
    """Bring a database from an earlier layout to the current one, in the transaction that is open.

    Alembic's own table of versions is not used: the layouts are a sequence of numbers, and the table ``schema_version``
    tells earlier versions of prmcal, too, that they cannot read a newer layout.

    Parameters
    ----------
    connection : Connection
        A connection with an open transaction. The caller commits it.
    layout : int
        The layout that the database has, at least :data:`prmcal.db.layout.OLDEST_LAYOUT`.
    """
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    _know_duckdb()
    operations = Operations(MigrationContext.configure(connection))
    steps = _steps()
    for number in range(layout + 1, SCHEMA_VERSION + 1):
        steps[number](operations)
    connection.execute(sa.text("UPDATE schema_version SET version = :number"), {"number": SCHEMA_VERSION})


def _steps() -> Mapping[int, Callable[[Operations], None]]:
    from prmcal.db.migrations import layout_6, layout_7

    return {6: layout_6.upgrade, 7: layout_7.upgrade}


def _know_duckdb() -> None:
    """Tell Alembic of DuckDB: its statements can be rolled back, and describe columns as those of PostgreSQL do."""
    from alembic.ddl.base import ColumnComment
    from alembic.ddl.impl import DefaultImpl
    from alembic.ddl.postgresql import visit_column_comment
    from sqlalchemy.ext.compiler import compiles

    class DuckDBImpl(DefaultImpl):
        __dialect__ = "duckdb"
        transactional_ddl = True

    compiles(ColumnComment, "duckdb")(visit_column_comment)
