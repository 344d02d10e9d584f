"""Rows and files for a database, each in a transaction of its own, and its copy for readers."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.db.tables import Base
from prmcal.db.writer import Files, Writer


def record(writer: Writer, rows: Sequence[Base]) -> None:
    with writer.transaction() as transaction:
        transaction.record(rows)


def load(writer: Writer, table: str, files: Files) -> int:
    with writer.transaction() as transaction:
        return transaction.load(table, files)


def publish(writer: Writer) -> None:
    with writer.transaction(publish=True):
        pass
