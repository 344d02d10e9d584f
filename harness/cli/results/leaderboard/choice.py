"""The cells and columns that the reader asks for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.db.catalog import is_merged, plugins
from prmcal.db.metrics import COORDINATES
from prmcal.db.queries.leaderboard import BETWEEN_SEEDS
from prmcal.errors import PrmcalError
from prmcal.harness.cli.options import tier_named

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_filters", "chosen_metrics", "chosen_tier", "only"]


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


def chosen_tier(published: Path, directory: Path, tier: str | None) -> str | None:
    """Return the tier that the reader means by its name or by its first word, such as ``graded``.

    Raises
    ------
    PrmcalError
        If there is no such tier, or the database is not that of a merged leaderboard.
    """
    if tier is None:
        return None
    full = tier_named(tier)
    if not is_merged(published):
        raise PrmcalError(
            f"{directory} is the folder of a run, whose results nobody has verified. --tier needs a merged "
            "leaderboard, which `prmcal merge` makes."
        )
    return full


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
    parts = ("_low", "_high", "_standing", "_letters", "_total", BETWEEN_SEEDS)
    chosen_metrics([name for name in frame if not name.endswith(parts)], columns)
    identity = ("cell_id", "number", *COORDINATES)
    wanted = {*identity, *columns, *(f"{column}{part}" for column in columns for part in parts)}
    return frame[[name for name in frame if name in wanted]]


def _hint(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    meant = f"Did you mean {' or '.join(repr(each) for each in close)}? " if close else ""
    return f"{meant}There are: {', '.join(known) or 'none'}."
