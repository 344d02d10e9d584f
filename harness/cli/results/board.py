"""Cells as a table of the terminal.

What is the same in all rows is said once above the table. Cells that compete have a heading with what they share. If
the table is too wide, its least important columns are left out, and a line below says how to see them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from prmcal.db.metrics import PLACE
from prmcal.db.text.board import Board, Column
from prmcal.db.text.provenance import renewal
from prmcal.harness.cli.options import fitted
from prmcal.harness.terminal import wrapped

if TYPE_CHECKING:
    import pandas as pd


_NAMES = (*PLACE, "strategy", "calibrator")
_IDENTITY = ("number", "strategy", "calibrator", "version")
_SETTINGS = ("target", "level")
_COUNTS = ("questions", "rows")
_SHARED = (*PLACE, *_SETTINGS, "strategy", "calibrator", "status")
"""What is said once above the table if it is the same in all rows."""
_SEEDS_NOTE = (
    "Measured with several seeds: {:,} of these cells. Intervals are over questions and leave out the spread between "
    "seeds, which `prmcal show CELL` and --format csv have."
)


def board_text(found: Board, columns: Sequence[str] = (), width: int | None = None) -> str:
    """Return a table of cells with its legend and its notes. `columns` are the keys of those that matter most."""
    columns_of = {column.key: column for column in found.columns if any(column.values)}
    if not columns_of:
        return "There are no such cells.\n"
    same = [key for key in _SHARED if key in columns_of and key not in columns and _shared(columns_of[key])]
    places = [
        columns_of[key] for key in PLACE if key in columns_of and key not in same and key not in columns
    ]
    groups = _groups(places, len(found.rows))
    above, headings, left_out = [], {}, set(same)
    if len(groups) < len(found.rows) and places:
        counts = [columns_of[key] for key in _COUNTS if key in columns_of]
        counts = [
            each for each in counts if all(len({each.values[row] for row in own}) == 1 for own in groups)
        ]
        left_out |= {each.key for each in (*places, *counts)}
        above.append(f"Headings: {', '.join(each.title for each in places)}.")
        for row, *_ in groups:
            numbers = ", ".join(f"{each.values[row]} {each.title.lower()}" for each in counts)
            heading = ", ".join(filter(None, (each.values[row] for each in places)))
            headings[row] = f"{heading} ({numbers})" if numbers else heading
    if same and len(found.rows) > 1:
        above.append(f"In all rows: {', '.join(_said(columns_of[key]) for key in same)}.")
    weights = _weights(found, columns)
    shown = [
        replace(column, weight=weights[key], whole=key not in _NAMES)
        for key, column in columns_of.items()
        if key not in left_out and key in weights
    ]
    hidden = ["--columns {keys}", "--format csv"]
    table = fitted(shown, width, legend=[found.legend], options=hidden, sections=headings)
    parts = [wrapped(" ".join(above), width)] if above else []
    return "\n\n".join([*parts, table, *(wrapped(note, width) for note in found.notes)]) + "\n"


def _groups(places: Sequence[Column], rows: int) -> list[list[int]]:
    """Return the rows of each place, which follow each other."""
    names = list(zip(*(each.values for each in places), strict=True)) or [()] * rows
    return [list(group) for _, group in itertools.groupby(range(rows), names.__getitem__)]


def _weights(found: Board, columns: Sequence[str]) -> dict[str, int]:
    """Return the weight of each column that may be shown: 0 for what must stay, more for what goes first."""
    metrics = [key for key in found.keys[found.names :] if key not in (*_COUNTS, "status")]
    asked = [key for key in columns if key in found.keys]
    order = [*PLACE, *_SETTINGS, *metrics[1:], "status", *_COUNTS]
    if asked:
        order = [*asked[1:], *(key for key in (*PLACE, *_SETTINGS) if key not in asked)]
    first = asked[0] if asked else metrics[0] if metrics else "status"
    must = {key: 0 for key in (*_IDENTITY, first) if key in found.keys}
    return {key: place for place, key in enumerate(order, start=1) if key in found.keys} | must


def _shared(column: Column) -> bool:
    """Return whether all rows have the same value. Rows of strategies without C or β do not count."""
    return len({each for each in column.values if each or column.key not in _SETTINGS}) == 1


def _said(column: Column) -> str:
    value = next(filter(None, column.values))
    if column.key == "status":
        return value
    return f"{column.title} {value}{'' if all(column.values) else ' (if the strategy has one)'}"


def provenance_notes(frame: pd.DataFrame) -> Iterator[str]:
    """Yield notes on rows that are not current, that a verification found wrong, and that have several seeds."""
    if "outdated" in frame:
        for reason, rows in frame[frame["outdated"].notna()].groupby("outdated", sort=False):
            again = renewal(rows.iloc[0].to_dict())
            yield (
                f"Not current: {_numbers(rows)}. Since then, this has changed: {reason}. To measure the first again: "
                f"{again}"
            )
        failed = frame[frame["failed_verifications"] > 0]
        if len(failed):
            yield f"A verification failed: {_numbers(failed)}."
    if "seeds" in frame:
        yield _SEEDS_NOTE.format(int(frame["seeds"].notna().sum()))


def _numbers(rows: pd.DataFrame) -> str:
    return ", ".join(f"#{number}" for number in rows["number"])
