"""Answers of the database, kept until a run publishes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from prmcal.db.queries import catalog
from prmcal.errors import DatabaseError

__all__ = ["ask"]


def ask(path: Path, query: str, **arguments: Any) -> Any:
    """Call a function of :mod:`prmcal.db.queries.catalog` on the published copy, or return what it said before.

    Raises
    ------
    DatabaseError
        If the copy is absent or cannot be read.
    """
    answer = _answer(str(path), catalog.fingerprint(path), query, arguments)
    if isinstance(answer, DatabaseError):
        raise answer
    return answer


# The fingerprint is a parameter only to be part of the cache's key. A refusal is kept as well, so that a broken
# file is not opened on every click.
@st.cache_data(max_entries=64, show_spinner=False)
def _answer(
    path: str, fingerprint: tuple[int, int, int] | None, query: str, arguments: dict[str, Any]
) -> Any:
    try:
        return getattr(catalog, query)(Path(path), **arguments)
    except DatabaseError as error:
        return error
