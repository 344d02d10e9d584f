"""Cached queries of the published database. The cache is renewed when a run publishes results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import pandas as pd
import streamlit as st

from prmcal.db import catalog
from prmcal.db.reader import fingerprint
from prmcal.errors import DatabaseError

__all__ = ["REFRESH_SECONDS", "ask", "ask_both", "ask_cells", "compute"]

_T = TypeVar("_T")

REFRESH_SECONDS = 2
"""How often an open page looks for new results."""


def ask(path: Path, query: str, **arguments: Any) -> Any:
    """Call a function of :mod:`prmcal.db.catalog` on the published copy, or return its cached result.

    Parameters
    ----------
    path : Path
        The published copy.
    query : str
        The name of the function.
    **arguments
        The keyword arguments of the function.

    Raises
    ------
    DatabaseError
        If the copy is missing or cannot be read, or if the query raises one.
    """
    return _ask((path,), query, arguments)


def ask_both(path: Path, other: Path, query: str, **arguments: Any) -> Any:
    """Do the same with a function that reads the published copies of two runs."""
    return _ask((path, other), query, arguments)


def ask_cells(path: Path, query: str, cells: pd.DataFrame) -> pd.DataFrame:
    """Ask the same of several cells. Join the results, with the calibrator of each cell in a column `calibrator`."""
    return pd.concat(
        [
            ask(path, query, cell_id=cell_id).assign(calibrator=calibrator)
            for cell_id, calibrator in zip(cells["cell_id"], cells["calibrator"], strict=True)
        ]
    )


def compute(path: Path, function: Callable[..., _T], **arguments: Any) -> _T:
    """Call ``function(path, **arguments)``, which reads the published copy by :func:`ask`, or return its cached result.

    It serves what takes longer to compute than to read again.

    Raises
    ------
    DatabaseError
        If the function raises one.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    return cast(_T, _computed(str(path), fingerprint(path), name, function, arguments))


def _ask(paths: tuple[Path, ...], query: str, arguments: dict[str, Any]) -> Any:
    files = tuple((str(path), fingerprint(path)) for path in paths)
    answer = _answer(files, query, arguments)
    if isinstance(answer, DatabaseError):
        raise answer
    return answer


# The fingerprint of a file is part of the key of the cache. Errors are cached too, so that a damaged file is not opened
# again on every click.
@st.cache_data(max_entries=64, show_spinner=False)
def _answer(
    files: tuple[tuple[str, tuple[int, int, int] | None], ...], query: str, arguments: dict[str, Any]
) -> Any:
    try:
        return getattr(catalog, query)(*(Path(path) for path, _ in files), **arguments)
    except DatabaseError as error:
        return error


@st.cache_data(max_entries=32, show_spinner=False)
def _computed(
    path: str,
    fingerprint: tuple[int, int, int] | None,
    name: str,
    _function: Callable[..., Any],
    arguments: dict[str, Any],
) -> Any:
    return _function(Path(path), **arguments)
