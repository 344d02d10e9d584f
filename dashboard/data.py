"""Cached queries of the published database. The cache is renewed when a run publishes results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import pandas as pd
import streamlit as st

from prmcal.db.reader import fingerprint
from prmcal.errors import DatabaseError

_P = ParamSpec("_P")
_T = TypeVar("_T")

REFRESH_SECONDS = 2
"""How often an open page looks for new results."""


def ask(
    query: Callable[Concatenate[Path, _P], _T], path: Path, *arguments: _P.args, **named: _P.kwargs
) -> _T:
    """Call a query on the published copy, or return its cached result.

    Raises a DatabaseError if the copy is missing or cannot be read, or if the query raises one.

    Parameters
    ----------
    query : callable
        A function of :mod:`prmcal.db.catalog`, or one that takes longer to compute than to read again and asks by
        itself.
    path : Path
        The published copy.
    *arguments, **named
        What else the query takes. Another path is that of the published copy of another run.
    """
    files = [path, *(each for each in arguments if isinstance(each, Path))]
    known = tuple((str(each), fingerprint(each)) for each in files)
    name = f"{query.__module__}.{query.__qualname__}"
    answer = _answer(name, known, query, (path, *arguments), tuple(map(str, arguments)), dict(named))
    if isinstance(answer, DatabaseError):
        raise answer
    return cast(_T, answer)


def ask_cells(query: Callable[[Path, str], pd.DataFrame], path: Path, cells: pd.DataFrame) -> pd.DataFrame:
    """Ask the same of several cells. Join the results, with the calibrator of each cell in a column `calibrator`."""
    return pd.concat(
        [
            ask(query, path, cell_id).assign(calibrator=calibrator)
            for cell_id, calibrator in zip(cells["cell_id"], cells["calibrator"], strict=True)
        ]
    )


# The fingerprints of files are part of the key of the cache. Errors are cached too, so that a damaged file is not
# opened again on every click.
@st.cache_data(max_entries=96, show_spinner=False)
def _answer(
    name: str,
    files: tuple[tuple[str, tuple[int, int, int] | None], ...],
    _query: Callable[..., Any],
    _arguments: tuple[Any, ...],
    texts: tuple[str, ...],
    named: dict[str, Any],
) -> Any:
    try:
        return _query(*_arguments, **named)
    except DatabaseError as error:
        return error
