"""The address of a database in a PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prmcal.errors import DatabaseError

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["address_of", "is_address"]

_SCHEMES = ("postgresql://", "postgres://")
_FORM = (
    "Its form is postgresql://USER@HOST/DATABASE. What is left out comes from the variables PGHOST, PGUSER, PGPASSWORD "
    "and PGDATABASE."
)


def is_address(text: str) -> bool:
    """Return whether a text is the address of a database in a server, not the path of a folder."""
    return text.startswith(_SCHEMES)


def address_of(text: str) -> sa.URL:
    """Return the address that a user gave. As text, ``str(url)``, it has no password.

    Raises
    ------
    DatabaseError
        If it is not an address. The message does not repeat it, since it may have a password.
    """
    if not is_address(text):
        raise DatabaseError(f"This is not the address of a database. {_FORM}")
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError

    try:
        url = sa.make_url(text).set(drivername="postgresql")
    except (ArgumentError, ValueError):
        raise DatabaseError(f"The address of the database cannot be read. {_FORM}") from None
    password = url.query.get("password")
    if isinstance(password, str):
        url = url.difference_update_query(["password"]).set(password=password)
    return url
