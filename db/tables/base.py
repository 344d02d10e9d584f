"""The declarative base of all tables.

No table declares a foreign key, because DuckDB cannot delete a parent and its child in one transaction. The comments of
the columns name the columns that they refer to.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped

__all__ = ["SCHEMA_VERSION", "Base", "identified_by"]

SCHEMA_VERSION = 8
"""The layout. Raise it with every change of a table. Databases of other layouts are built again: `prmcal rebuild`."""


class Base(DeclarativeBase):
    """Base of every table. ``float`` has 64 bits; ``datetime`` is UTC without a time zone."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        float: sa.Double(),
        str: sa.Text(),
        datetime: sa.DateTime(),
        dict[str, Any]: sa.JSON(),
    }


def identified_by(*columns: Mapped[Any]) -> dict[str, Any]:
    """Tell the mapper which columns identify a row of a table without a primary key in the database.

    Tables that are loaded in bulk have no primary key: its index would take longer than the rest of the load.
    """
    return {"primary_key": columns}
