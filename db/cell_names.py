"""The order of cells in the grid, their short numbers, and the cell that a reader means by a number or a part of an id.

The identifiers themselves are made in :mod:`prmcal.db.cells`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import sqlalchemy as sa

from prmcal.db.metrics import Leaderboard
from prmcal.db.reader import Source, connection_of
from prmcal.db.tables import Cell, Plugin
from prmcal.errors import UnknownCellError

__all__ = ["cell_number", "cell_numbers", "find_cell", "numbered", "unknown_cell"]

_NAMED = 3
"""How many cells a message names at most."""


def cell_numbers() -> sa.Subquery:
    """Return a subquery with the short number of each cell: columns cell_id and number.

    Numbers count the cells of the calibration leaderboard from 1, and continue with those of the scaling leaderboard
    and of the league.
    They follow the rows of the leaderboards, so they depend on the grid only. A run has all its cells from the start.
    """
    order = [
        sa.case({name: place for place, name in enumerate(get_args(Leaderboard))}, value=Cell.leaderboard),
        *(place for kind in ("dataset", "llm", "prm", "strategy") for place in _places(kind)),
        Cell.target.nulls_first(),
        Cell.level.nulls_first(),
        *_places("calibrator"),
        Cell.cell_id,
    ]
    return sa.select(Cell.cell_id, sa.func.row_number().over(order_by=order).label("number")).subquery()


def _places(kind: str) -> list[sa.ColumnElement[Any]]:
    """Return columns that order cells as the grid orders its plugins of a kind. Cells without a plugin come first."""
    name = getattr(Cell, kind)
    position = sa.select(Plugin.position).where(Plugin.kind == kind, Plugin.name == name).scalar_subquery()
    return [name.is_not(None), position.asc().nulls_last(), name.nulls_first()]


def numbered(source: Source) -> dict[str, int]:
    """Return the short number of each cell by its identifier, in the order of the numbers."""
    numbers = cell_numbers()
    with connection_of(source) as connection:
        rows = connection.execute(sa.select(numbers.c.cell_id, numbers.c.number).order_by(numbers.c.number))
        return {row.cell_id: row.number for row in rows}


def cell_number(number: int) -> str:
    """Return a short number as readers see it, such as ``#12``."""
    return f"#{number}"


def find_cell(source: Source, name: str) -> str:
    """Return the identifier of the cell that a reader names.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    name : str
        A short number (``12`` or ``#12``), an identifier, or a part of it that only one cell has. The parts between
        slashes or spaces may leave out others: ``weak/isotonic/math`` is a part of
        ``calibration/weak/qwen/isotonic/nano-math``.

    Raises
    ------
    UnknownCellError
        If there is no such cell or several. The message has up to three cells that may be meant.
    """
    numbers = numbered(source)
    text = name.strip()
    if text in numbers:
        return text
    if re.fullmatch(r"#?\d+", text):
        return _with_number(numbers, int(text.removeprefix("#")))
    matching = _matching(numbers, text.lower())
    if len(matching) == 1:
        return matching[0]
    if matching:
        more = "" if len(matching) <= _NAMED else ", or another of them"
        raise UnknownCellError(
            f"'{name}' is part of {len(matching)} cells. Did you mean "
            f"{_listed(numbers, matching[:_NAMED])}{more}? `prmcal leaderboard DIR` has all cells."
        )
    raise unknown_cell(name, numbers)


def unknown_cell(name: str, numbers: Mapping[str, int]) -> UnknownCellError:
    """Return the error that no cell has this name, with the most similar identifiers."""
    close = difflib.get_close_matches(name.lower(), numbers, n=_NAMED, cutoff=0.5)
    hint = f"Did you mean {_listed(numbers, close)}?" if close else "`prmcal leaderboard DIR` has all cells."
    return UnknownCellError(f"There is no cell '{name}'. {hint}")


def _with_number(numbers: Mapping[str, int], number: int) -> str:
    for cell_id, each in numbers.items():
        if each == number:
            return cell_id
    known = f"The cells are #1 to #{len(numbers)}." if numbers else "The run has no cells yet."
    raise UnknownCellError(f"There is no cell #{number}. {known}")


def _matching(ids: Iterable[str], text: str) -> list[str]:
    """Return the identifiers that a text is a part of: whole names if possible, else any characters."""
    parts = [re.escape(part) for part in re.split(r"[/\s]+", text) if part]
    whole = re.compile("(?:^|/)" + "/(?:.*/)?".join(parts) + "(?:/|$)")
    anywhere = re.compile(".*".join(parts))
    known = list(ids)
    for pattern in (whole, anywhere):
        found = [cell_id for cell_id in known if parts and pattern.search(cell_id.lower())]
        if found:
            return found
    return []


def _listed(numbers: Mapping[str, int], ids: list[str]) -> str:
    return " or ".join(f"{cell_number(numbers[each])} '{each}'" for each in ids)
