"""Cells as a table of the terminal.

What is the same in all rows is said once above the table. Cells that compete have a heading with what they share. If
the table is too wide, its least important columns are left out, and a line below says how to see them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prmcal.db.text.board import Board
from prmcal.db.text.provenance import renewal
from prmcal.harness.cli.options import hidden_note
from prmcal.harness.terminal import fit, wrapped

if TYPE_CHECKING:
    import pandas as pd


_PLACE = ("dataset", "llm", "prm", "conditions")
_NAMES = (*_PLACE, "strategy", "calibrator")
_IDENTITY = ("number", "strategy", "calibrator", "version")
_SETTINGS = ("target", "level")
_COUNTS = ("questions", "rows")
_SHARED = (*_PLACE, *_SETTINGS, "strategy", "calibrator", "status")
"""What is said once above the table if it is the same in all rows."""
_SEEDS_NOTE = (
    "Measured with several seeds: {:,} of these cells. Intervals are over questions and leave out the spread between "
    "seeds, which `prmcal show CELL` and --format csv have."
)
_FEWEST_ROWS = 3
"""Mean number of rows from which a group gets a heading, unless the table is too wide without headings."""


@dataclass(frozen=True)
class _Grouped:
    """Headings above groups of rows.

    Attributes
    ----------
    headings : mapping of int to str
        By the first row of each group.
    keys : frozenset of str
        The columns that they take the place of.
    explanation : str
        What the names in the headings are.
    """

    headings: Mapping[int, str]
    keys: frozenset[str]
    explanation: str


def board_text(found: Board, *, columns: Sequence[str] = (), width: int | None = None) -> str:
    """Return a table of cells with its legend and its notes.

    Parameters
    ----------
    found : Board
        Its keys name its columns.
    columns : sequence of str
        Keys of the columns that matter most, in their order.
    width : int, optional
        Default: the width of the terminal.
    """
    columns_of = {column.key: column for column in found.columns}
    values = {key: column.values for key, column in columns_of.items()}
    if not any(values.values()):
        return "There are no such cells.\n"
    titles = {key: column.title for key, column in columns_of.items()}
    same = [key for key in _SHARED if key in values and key not in columns and _shared(key, values[key])]
    places = [key for key in _PLACE if key in values and key not in (*same, *columns)]
    weights = _weights(found, columns)
    for fewest_rows in (_FEWEST_ROWS, 1):
        grouped = _grouped(values, titles, places, fewest_rows)
        shown = [
            replace(column, weight=weights[key], whole=key not in _NAMES)
            for key, column in columns_of.items()
            if key not in same and key not in grouped.keys and key in weights and any(values[key])
        ]
        fitted = fit(shown, width, grouped.headings)
        # Without the names of their places, rows could not be told apart.
        if not {column.key for column in fitted.hidden}.intersection(places):
            break
    above = [grouped.explanation] if grouped.explanation else []
    if same and len(found.rows) > 1:
        above.append("In all rows: " + ", ".join(_said(key, titles[key], values[key]) for key in same) + ".")
    parts = [wrapped(" ".join(above), width)] if above else []
    parts += [fitted.text, wrapped(found.legend, width)]
    if fitted.hidden:
        parts.append(wrapped(hidden_note(fitted.hidden, "--columns {keys}", "--format csv"), width))
    parts += [wrapped(note, width) for note in found.notes]
    return "\n\n".join(parts) + "\n"


def _weights(found: Board, columns: Sequence[str]) -> dict[str, int]:
    """Return the weight of each column that may be shown: 0 for what must stay, more for what goes first."""
    metrics = [key for key in found.keys[found.names :] if key not in (*_COUNTS, "status")]
    asked = [key for key in columns if key in found.keys]
    order = [*_PLACE, *_SETTINGS, *metrics[1:], "status", *_COUNTS]
    if asked:
        order = [*asked[1:], *(key for key in (*_PLACE, *_SETTINGS) if key not in asked)]
    first = asked[0] if asked else metrics[0] if metrics else "status"
    must = {key: 0 for key in (*_IDENTITY, first) if key in found.keys}
    return {key: place for place, key in enumerate(order, start=1) if key in found.keys} | must


def _grouped(
    values: Mapping[str, Sequence[str]], titles: Mapping[str, str], keys: Sequence[str], fewest_rows: int
) -> _Grouped:
    rows = len(values["number"] if "number" in values else next(iter(values.values())))
    groups = [
        list(group)
        for _, group in itertools.groupby(range(rows), lambda row: [values[key][row] for key in keys])
    ]
    if not keys or rows < fewest_rows * len(groups):
        return _Grouped({}, frozenset(), "")
    counts = [
        key
        for key in _COUNTS
        if key in values and all(len({values[key][row] for row in group}) == 1 for group in groups)
    ]
    headings = {}
    for group in groups:
        of_group = ", ".join(filter(None, (values[key][group[0]] for key in keys)))
        number = ", ".join(f"{values[key][group[0]]} {titles[key].lower()}" for key in counts)
        headings[group[0]] = f"{of_group} ({number})" if number else of_group
    return _Grouped(
        headings, frozenset((*keys, *counts)), f"Headings: {', '.join(titles[key] for key in keys)}."
    )


def _shared(key: str, values: Sequence[str]) -> bool:
    """Return whether all rows have the same value. Rows of strategies without C or β do not count."""
    return len({each for each in values if each or key not in _SETTINGS}) == 1


def _said(key: str, title: str, values: Sequence[str]) -> str:
    value = next(filter(None, values), "none")
    if key == "status":
        return value
    return f"{title} {value}" if all(values) else f"{title} {value} (if the strategy has one)"


def provenance_notes(frame: pd.DataFrame) -> Iterator[str]:
    """Yield notes on rows that are not current, that a verification found wrong, and that have several seeds.

    Parameters
    ----------
    frame : DataFrame
        As :func:`prmcal.db.queries.leaderboard.leaderboard` returns it. The rows of a run need no note.
    """
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
