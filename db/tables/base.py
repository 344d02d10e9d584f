"""The declarative base of all tables.

No table declares a foreign key: DuckDB cannot copy a database that has one, nor delete parent and child
in one transaction. What refers to what stands in the columns' comments.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped

__all__ = ["SCHEMA_VERSION", "Base", "identified_by"]

SCHEMA_VERSION = 3
"""Raise it with every change of a table. Files of another version are refused; artifacts rebuild them."""


class Base(DeclarativeBase):
    """Base of every table. ``float`` is 64 bits wide, ``datetime`` is UTC without a zone."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        float: sa.Double(),
        str: sa.Text(),
        datetime: sa.DateTime(),
        dict[str, Any]: sa.JSON(),
    }


def identified_by(*columns: Mapped[Any]) -> dict[str, Any]:
    """Tell the mapper which columns identify a row of a table that has no primary key in the database.

    An index would cost more than all the rest of a bulk load.
    """
    return {"primary_key": columns}
