"""Tables that fit the terminal: columns are left out before a text is cut."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size

from prmcal.harness.terminal.prose import broken, cut
from prmcal.harness.terminal.size import terminal_width
from prmcal.registry.messages import one_line

__all__ = ["Column", "Fitted", "fit", "text_table"]

_GAP = "  "
_NUMBER = re.compile(r"[-+]?[\d.,/]*%?")
_LEAST_TEXT, _LEAST_NAME = 20, 6


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    title : str
        May be wrapped at its words.
    values : tuple of str
        One text for each row.
    weight : int
        How important the column is. Columns with the largest numbers are left out first, those with 0 never.
    key : str
        How the reader asks for the column, if it can be asked for.
    group : str
        Columns of a group are left out together.
    text : bool
        Whether the column holds free text, which takes the space that is left.
    whole : bool
        Whether its values are never cut.
    """

    title: str
    values: tuple[str, ...]
    weight: int = 0
    key: str = ""
    group: str = ""
    text: bool = False
    whole: bool = False

    def width(self, *, wrapped: bool = False) -> int:
        """Return the number of columns of the terminal that it takes, with its title on one line or wrapped."""
        widest = max(map(cell_len, self.values), default=0)
        if self.text:
            widest = min(widest, _LEAST_TEXT)
        return max(widest, *map(cell_len, self.title.split() if wrapped else [self.title]), 1)


@dataclass(frozen=True)
class Fitted:
    """A table that fits.

    Attributes
    ----------
    text : str
    hidden : tuple of Column
        The columns that were left out, in their order.
    """

    text: str
    hidden: tuple[Column, ...]


def fit(
    columns: Sequence[Column], width: int | None = None, sections: Mapping[int, str] | None = None
) -> Fitted:
    """Return a table that is at most as wide as the terminal.

    If it is too wide, titles are wrapped. If it is still too wide, columns are left out. Names are cut only if the
    columns of weight 0 are too wide.

    Parameters
    ----------
    columns : sequence of Column
    width : int, optional
        Default: the width of the terminal.
    sections : mapping of int to str, optional
        Headings above rows, by the index of the row.
    """
    space = terminal_width() if width is None else width
    clean = [replace(each, values=_aligned(each)) for each in columns]
    kept = _kept(clean, space)
    widths = _widths(kept, space)
    lines = _head(kept, widths)
    for place, row in enumerate(zip(*(each.values for each in kept), strict=True)):
        if sections and place in sections:
            lines += ["", cut(sections[place], space)] if place else [cut(sections[place], space)]
        lines.append(_line(row, widths))
    hidden = [original for original, each in zip(columns, clean, strict=True) if each not in kept]
    return Fitted("\n".join(lines), tuple(hidden))


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return all columns of a small table with a rule below the head. Texts that are too wide are wrapped."""
    space = terminal_width() if width is None else width
    columns = [
        Column(title, tuple(row[place] for row in rows), whole=all(map(_NUMBER.fullmatch, column)))
        for place, (title, column) in enumerate(zip(head, zip(*rows, strict=True), strict=True))
    ]
    widths = _widths(columns, space)
    lines = _head(columns, widths)
    for row in rows:
        parts = [broken(one_line(text), size) for text, size in zip(row, widths, strict=True)]
        lines += [_line(each, widths) for each in itertools.zip_longest(*parts, fillvalue="")]
    return "\n".join(lines)


def _aligned(column: Column) -> tuple[str, ...]:
    """Return the values on one line each. If some numbers have a sign, the others begin with a space."""
    values = [one_line(each) for each in column.values]
    signs = any(each[:1] in "+-" and each[1:2].isdigit() for each in values)
    return tuple(f" {each}" if signs and each[:1].isdigit() else each for each in values)


def _kept(columns: Sequence[Column], space: int) -> list[Column]:
    """Leave out columns until the rest fits. Then take back those that fit after all."""
    units = _units(columns)
    kept = list(units)
    while not _fits(kept, space):
        heaviest = max(kept, key=lambda unit: (unit[0].weight, units.index(unit)))
        if not heaviest[0].weight:
            break
        kept.remove(heaviest)
    for unit in sorted((each for each in units if each not in kept), key=lambda unit: unit[0].weight):
        if _fits([*kept, unit], space):
            kept.append(unit)
    chosen = [column for unit in kept for column in unit]
    return [each for each in columns if each in chosen]


def _units(columns: Sequence[Column]) -> list[tuple[Column, ...]]:
    """Return the columns that are left out together: those of a group, and each other one by itself."""
    groups: dict[str, list[Column]] = {}
    for place, column in enumerate(columns):
        groups.setdefault(column.group or f"{place}", []).append(column)
    return [tuple(group) for group in groups.values()]


def _fits(units: Sequence[tuple[Column, ...]], space: int) -> bool:
    return _total([column.width(wrapped=True) for unit in units for column in unit]) <= space


def _widths(columns: Sequence[Column], space: int) -> list[int]:
    widths = [each.width(wrapped=True) for each in columns]
    names = [place for place, each in enumerate(columns) if not each.whole] or list(range(len(columns)))
    while _total(widths) > space and max(widths) > 1:
        longest = max(names, key=widths.__getitem__)
        if widths[longest] <= _LEAST_NAME:
            longest = max(range(len(columns)), key=widths.__getitem__)
        widths[longest] -= 1
    for place, column in enumerate(columns):
        widest = max(column.width(), *map(cell_len, column.values)) if column.values else column.width()
        widths[place] += max(0, min(widest - widths[place], space - _total(widths)))
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _head(columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    titles = [_title_lines(each.title, width) for each, width in zip(columns, widths, strict=True)]
    height = max(map(len, titles), default=0)
    padded = [[""] * (height - len(each)) + each for each in titles]
    lines = [_line(row, widths) for row in zip(*padded, strict=True)]
    return [*lines, "─" * _total(widths)]


def _title_lines(title: str, width: int) -> list[str]:
    lines = [""]
    for word in title.split():
        longer = f"{lines[-1]} {word}".strip()
        if cell_len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(
        set_cell_size(cut(each, width) if cell_len(each) > width else each, width)
        for each, width in zip(row, widths, strict=True)
    ).rstrip()
