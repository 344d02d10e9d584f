"""The address of a database in a PostgreSQL server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prmcal.errors import DatabaseError

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["address_of", "is_address"]

_SCHEMES = ("postgresql", "postgres")
_BEGINNING = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_FORM = (
    "Its form is postgresql://USER@HOST/DATABASE. What is left out comes from the variables PGHOST, PGUSER, PGPASSWORD "
    "and PGDATABASE."
)


def is_address(text: str) -> bool:
    """Return whether a text is an address, not the path of a folder.

    Parameters
    ----------
    text : str
        An address of any kind begins with a word and ``://``. :func:`address_of` tells whether it can be used.
    """
    return _BEGINNING.match(text) is not None


def address_of(text: str) -> sa.URL:
    """Return the address that a user gave. As text, ``str(url)``, it has no password.

    Parameters
    ----------
    text : str

    Raises
    ------
    DatabaseError
        If it is not the address of a PostgreSQL database. The message repeats at most how it begins, since it may have
        a password.
    """
    beginning = _BEGINNING.match(text)
    if beginning is None:
        raise DatabaseError(f"This is not the address of a database. {_FORM}")
    if beginning[1] not in _SCHEMES:
        raise DatabaseError(f"The address of a database does not begin with {beginning[0]}. {_FORM}")
    # Which '@' ends the password cannot be told, so a part of the password could be shown as that of the host.
    if text.count("@") > 1:
        raise DatabaseError(
            f"The address of the database has more than one '@'. Write %40 for those in names and passwords. {_FORM}"
        )
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError

    try:
        url = sa.make_url(text).set(drivername="postgresql")
    except (ArgumentError, ValueError):
        raise DatabaseError(f"The address of the database cannot be read. {_FORM}") from None
    secret = next((name for name in url.query if "password" in name and name != "password"), None)
    if secret is not None:
        raise DatabaseError(
            f"Messages repeat an address, so it has no {secret}. Put it into a service file of PostgreSQL, and write "
            "?service=NAME into the address."
        )
    if "password" in url.query:
        last = url.normalized_query["password"][-1]
        url = url.difference_update_query(["password"]).set(password=last)
    return url
