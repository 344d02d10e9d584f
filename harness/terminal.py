"""Text that fits the terminal: its size, wrapped and cut text, and tables that leave out columns."""

import itertools
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from prmcal.db.text.board import Column
from prmcal.registry.messages import one_line, printable

_GAP = "  "
_NUMBER = re.compile(r"[-+]?[\d.,/]*%?")
_LEAST_TEXT, _LEAST_NAME = 20, 6
NARROWEST = 60
"""The smallest width that output is made for, in columns."""
UNLIMITED = 100_000
"""A width that nothing fills."""
_PIPE = (100, 24)
_CONSOLE = Console(width=80, color_system=None)


def terminal_width() -> int:
    """Return the width of the output in columns: of COLUMNS, of the terminal, or 100 if there is no terminal."""
    return max(NARROWEST, shutil.get_terminal_size(_PIPE).columns)


def wrapped(text: str, width: int | None = None, *, indent: str = "", hanging: str = "") -> str:
    """Return text with its lines wrapped at words. A word that is too long for a line is broken.

    Line breaks stay, and control characters are escaped. The default width is the terminal's, also for a table of
    unlimited width. All lines begin with `indent`, and all but the first one with `hanging` besides.
    """
    space = (terminal_width() if width in (None, UNLIMITED) else width) - cell_len(indent + hanging)
    pieces = [piece for line in printable(text).split("\n") for piece in broken(line, space)]
    return "\n".join(f"{indent}{hanging if number else ''}{piece}".rstrip() for number, piece in enumerate(pieces))


def broken(line: str, space: int) -> list[str]:
    """Return a line without control characters as lines of at most `space` columns, broken at words if possible."""
    return [piece.plain.rstrip() for piece in Text(line).wrap(_CONSOLE, space, overflow="fold")] or [""]


def cut(text: str, width: int) -> str:
    """Return the start of a text on one line of at most `width` columns. An ellipsis says that there is more."""
    line = one_line(text)
    return line if cell_len(line) <= width else f"{set_cell_size(line, width - 1).rstrip()}…"


class Fitted(NamedTuple):
    """A table that fits, and the columns that were left out, in their order."""

    text: str
    hidden: tuple[Column, ...]


def fit(columns: Sequence[Column], width: int | None = None, sections: Mapping[int, str] | None = None) -> Fitted:
    """Return a table that is at most as wide as the terminal, or as `width`.

    If the table is too wide, titles are wrapped. If it is still too wide, columns are left out. Names are cut only if
    the columns of weight 0 are too wide. `sections` has headings above rows, by the index of the row.
    """
    space = terminal_width() if width is None else width
    clean = [replace(column, values=_aligned(column)) for column in columns]
    visible = _visible(clean, space)
    widths = _widths(visible, space)
    lines = _head(visible, widths)
    for place, row in enumerate(zip(*(column.values for column in visible), strict=True)):
        if sections and place in sections:
            lines += ["", cut(sections[place], space)] if place else [cut(sections[place], space)]
        lines.append(_line(row, widths))
    hidden = [original for original, column in zip(columns, clean, strict=True) if column not in visible]
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
        cells = [broken(one_line(text), size) for text, size in zip(row, widths, strict=True)]
        lines += [_line(texts, widths) for texts in itertools.zip_longest(*cells, fillvalue="")]
    return "\n".join(lines)


def _width(column: Column, *, wrapped: bool = False) -> int:
    """Return the width of a column in characters, with its title on one line or wrapped."""
    widest = max(map(cell_len, column.values), default=0)
    if column.text:
        widest = min(widest, _LEAST_TEXT)
    return max(widest, *map(cell_len, column.title.split() if wrapped else [column.title]), 1)


def _aligned(column: Column) -> tuple[str, ...]:
    """Return the values on one line each. If some numbers have a sign, the others begin with a space."""
    values = [one_line(value) for value in column.values]
    signs = any(value[:1] in "+-" and value[1:2].isdigit() for value in values)
    return tuple(f" {value}" if signs and value[:1].isdigit() else value for value in values)


def _visible(columns: Sequence[Column], space: int) -> list[Column]:
    """Take the most important columns first, and leave out columns that do not fit. A group is taken as a whole."""
    groups: dict[str, list[Column]] = {}
    for place, column in enumerate(columns):
        groups.setdefault(column.group or f"{place}", []).append(column)
    visible: list[Column] = []
    for group in sorted(groups.values(), key=lambda group: group[0].weight):
        widths = [_width(column, wrapped=True) for column in (*visible, *group)]
        if not group[0].weight or _total(widths) <= space:
            visible += group
    return [column for column in columns if column in visible]


def _widths(columns: Sequence[Column], space: int) -> list[int]:
    widths = [_width(column, wrapped=True) for column in columns]
    names = [place for place, column in enumerate(columns) if not column.whole] or list(range(len(columns)))
    while _total(widths) > space and max(widths) > 1:
        longest = max(names, key=widths.__getitem__)
        if widths[longest] <= _LEAST_NAME:
            longest = max(range(len(columns)), key=widths.__getitem__)
        widths[longest] -= 1
    for place, column in enumerate(columns):
        widest = max(_width(column), *map(cell_len, column.values)) if column.values else _width(column)
        widths[place] += max(0, min(widest - widths[place], space - _total(widths)))
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _head(columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    titles = [broken(column.title, width) for column, width in zip(columns, widths, strict=True)]
    height = max(map(len, titles), default=0)
    padded = [[""] * (height - len(title_lines)) + title_lines for title_lines in titles]
    lines = [_line(row, widths) for row in zip(*padded, strict=True)]
    return [*lines, "─" * _total(widths)]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(
        set_cell_size(cut(text, width) if cell_len(text) > width else text, width)
        for text, width in zip(row, widths, strict=True)
    ).rstrip()
