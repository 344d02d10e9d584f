"""DuckDB for SQLAlchemy. DuckDB reads the SQL of the standard, so prmcal needs little of a dialect."""

import logging
from contextlib import suppress
from typing import Any

import duckdb
from sqlalchemy.dialects import registry
from sqlalchemy.engine.default import DefaultDialect, DefaultExecutionContext
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.sql.compiler import GenericTypeCompiler

URL = "duckdb+prmcal"
"""The name of the dialect in a URL. Other packages may have registered ``duckdb``."""
registry.register("duckdb.prmcal", __name__, "Dialect")
# An interrupt while a connection closes is raised. SQLAlchemy would print its traceback too.
logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())


class _Cursor:
    """Executes in the transaction of a connection. A cursor of DuckDB would be another connection."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._state = connection.dbapi_connection, connection.info

    def execute(self, statement: str, parameters: Any = ()) -> None:
        self._state["latest"] = self
        self._connection.execute(statement, parameters)

    def executemany(self, statement: str, parameters: Any) -> None:
        self._state["latest"] = self
        self._connection.executemany(statement, parameters)

    def __getattr__(self, name: str) -> Any:
        if self._state.get("latest") is not self:
            raise InvalidRequestError("These rows are gone: another statement was executed before they were read.")
        return getattr(self._connection, name)

    def close(self) -> None:
        """Keep the connection."""


class _Context(DefaultExecutionContext):
    def create_default_cursor(self) -> Any:
        return _Cursor(self._dbapi_connection)


class _Types(GenericTypeCompiler):
    def visit_JSON(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return "JSON"


class Dialect(DefaultDialect):
    """What differs from the standard."""

    name, driver = "duckdb", "prmcal"
    supports_statement_cache = supports_native_boolean = supports_comments = True
    div_is_floordiv = False
    execution_ctx_cls, type_compiler_cls = _Context, _Types

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return the driver."""
        return duckdb

    def do_begin(self, dbapi_connection: Any) -> None:
        """Begin a transaction. Without this, each statement would be a transaction of its own."""
        dbapi_connection.begin()

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Roll back the transaction, if there is one."""
        with suppress(duckdb.TransactionException):
            dbapi_connection.rollback()

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Return whether the connection is lost: after a fatal error, DuckDB refuses everything, a rollback too."""
        return "FATAL" in str(e)
