"""The cells and columns that the reader asks for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.db.metrics import COORDINATES
from prmcal.db.queries.catalog import plugins
from prmcal.errors import PrmcalError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_filters", "chosen_metrics", "only"]


def check_filters(published: Path, filters: Mapping[str, Sequence[str]]) -> None:
    """Check that the grid has the names of filters, which are given by kind of plugin.

    Raises
    ------
    PrmcalError
        If it does not have one. The message has similar names.
    """
    if not filters:
        return
    known = plugins(published)
    for kind, names in filters.items():
        of_kind = list(known.loc[known["kind"] == kind, "name"])
        for name in names:
            if name not in of_kind:
                raise PrmcalError(f"--{kind}: the grid has no {kind} '{name}'. {_hint(name, of_kind)}")


def chosen_metrics(keys: Iterable[str], columns: Sequence[str], metrics: Iterable[str] = ()) -> list[str]:
    """Return the metrics among the columns that the reader asks for.

    Raises
    ------
    PrmcalError
        If the table has no such column.
    """
    known = list(keys)
    for column in columns:
        if column not in known:
            raise PrmcalError(f"--columns: the table has no column '{column}'. {_hint(column, known)}")
    measured = set(metrics)
    return [column for column in columns if column in measured]


def only(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Keep what identifies the cells, and the columns that the reader asks for with their intervals and standings.

    Raises
    ------
    PrmcalError
        If the table has no such column.
    """
    if not columns:
        return frame
    parts = ("_low", "_high", "_standing", "_letters", "_total")
    chosen_metrics([name for name in frame if not name.endswith(parts)], columns)
    identity = ("cell_id", "number", *COORDINATES)
    wanted = {*identity, *columns, *(f"{column}{part}" for column in columns for part in parts)}
    return frame[[name for name in frame if name in wanted]]


def _hint(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    meant = f"Did you mean {' or '.join(repr(each) for each in close)}? " if close else ""
    return f"{meant}There are: {', '.join(known) or 'none'}."
