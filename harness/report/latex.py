r"""Tables of a report as LaTeX floats that fit a page, for ``\input``.

Letters have fixed sizes, whatever the size of the document: 8 points, and 7 points for intervals. No table is scaled.
A table is as wide as one column of a page (3.25 in), or else at most 5.5 in, which is the text of NeurIPS and ICLR and
fits two columns elsewhere. Columns that do not fit are set below, and rows that do not fit on a page in another float.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from prmcal.db.text.formats import escape_latex, interval, latex_line, number
from prmcal.db.text.presentation import DIGITS
from prmcal.harness.report.evidence.values import Value
from prmcal.harness.report.exhibits.types import Panel, Table, TextTable, counts_text
from prmcal.harness.report.formats import VERDICTS

__all__ = ["latex"]

_INCH = 72.27  # points of TeX
_ONE_COLUMN, _WIDE = 3.25 * _INCH, 5.5 * _INCH
_SPACE = 3.0  # on each side of a column
_LARGE, _SMALL = 8.0, 7.0
_WIDER = {_LARGE: 1.07, _SMALL: 1.15}  # Small fonts of Computer Modern are wider than their size says.
_TALLEST = 430.0  # of the rows of a float, so that the caption fits on the page of a short document class
_LONGEST_HEAD, _LONGEST_NAME, _LONGEST_TEXT = 12, 20, 24  # letters of a line
_TOGETHER = 10  # floats without a new page: LaTeX keeps 18 in memory
_OTHER_HEADINGS = 3  # data set, PRM and LLM, if more columns identify a row


@dataclass(frozen=True)
class _Line:
    """One line of a cell: its text, its LaTeX and the size of its letters."""

    text: str
    code: str
    size: float = _LARGE

    @property
    def width(self) -> float:
        """Width in points, in Computer Modern. Other fonts are narrower."""
        letters = re.sub(r"(?<!\w)-(?=\d)", "+", self.text)  # A minus sign is as wide as a plus sign.
        return self.size * _WIDER[self.size] * sum(map(_width_of, letters))


_Cell = tuple[_Line, ...]


@dataclass(frozen=True)
class _Column:
    """A column: its common head, the lines of its own head, its cells, and whether it is aligned to the right."""

    group: str
    head: _Cell
    cells: tuple[_Cell, ...]
    right: bool

    @property
    def width(self) -> float:
        return 2 * _SPACE + max(line.width for cell in (self.head, *self.cells) for line in cell or (_EMPTY,))


_EMPTY = _Line("", "")


@dataclass(frozen=True)
class _Grid:
    """Rows and columns: the columns that name a row, the other columns, and the heading above each row."""

    names: tuple[_Column, ...]
    columns: tuple[_Column, ...]
    headings: tuple[str, ...]


def latex(table: Table | TextTable) -> str:
    r"""Return a table in LaTeX. The preamble needs ``booktabs`` and ``\usepackage[T1]{fontenc}``."""
    first = f"% {table.name}. The preamble needs \\usepackage{{booktabs}} and \\usepackage[T1]{{fontenc}}.\n"
    # LaTeX numbers tables itself, so the number in "Table 2: best-of-n" is dropped.
    subject = table.title.partition(": ")[2] or table.title
    subject = f"{subject[0].upper()}{subject[1:]}"
    if isinstance(table, TextTable):
        return first + "\n".join(
            _floats(_grid_of_texts(table), f"{subject}. {table.caption}", table.name, [])
        )
    floats = []
    for panel in table.panels:
        named = f"{subject}{f' ({panel.title})' if panel.title else ''}."
        caption = " ".join(text for text in (named, panel.description, table.caption) if text)
        label = "-".join(part for part in (table.name, panel.name) if part)
        floats += _floats(_grid_of_panel(table, panel), caption, label, _notes(table, panel))
    parts = [floats[start : start + _TOGETHER] for start in range(0, len(floats), _TOGETHER)]
    return first + "\n\\clearpage\n".join("\n".join(part) for part in parts)


def _grid_of_panel(table: Table, panel: Panel) -> _Grid:
    count = len(panel.coordinates)
    headings = _OTHER_HEADINGS if count > _OTHER_HEADINGS + 1 else count - 1
    names = []
    for place in range(headings, count):
        cells = [_wrapped(row.labels[place], _LONGEST_NAME) for row in panel.rows]
        if place == headings:
            counts = (counts_text(row.values) for row in panel.rows)
            cells = [
                (*cell, *_plain(f"n = {n}" if n else "", _SMALL))
                for cell, n in zip(cells, counts, strict=True)
            ]
        names.append(_Column("", _wrapped(panel.coordinates[place], _LONGEST_HEAD), tuple(cells), False))
    heads = [(head, column) for head, columns in panel.heads for column in columns]
    columns = tuple(
        _Column(
            head,
            _wrapped(column, _LONGEST_HEAD),
            tuple(_cell_of_value(row.values[place], table) for row in panel.rows),
            True,
        )
        for place, (head, column) in enumerate(heads)
    )
    return _Grid(tuple(names), columns, tuple(", ".join(row.labels[:headings]) for row in panel.rows))


def _cell_of_value(value: Value, table: Table) -> _Cell:
    if value.value is None:
        mark = str(table.notes()[value.reason or ""])
        first = _Line(f"--{mark}", rf"--\textsuperscript{{{mark}}}")
    else:
        text = number(value.value, DIGITS)
        code = _code(text)
        if value.standing in VERDICTS:
            text, code = f"{text} ({value.standing})", f"{code} ({value.standing})"
        elif value.standing == "best":
            text, code = f"{text} ", rf"\textbf{{{code}}}"
        elif value.standing == "tied":
            text, code = f"{text}=", rf"{code}\textsuperscript{{=}}"
        first = _Line(text, code)
    between = "" if value.low is None or value.high is None else interval(value.low, value.high, DIGITS)
    below = [between, f"paper {value.published}" if value.published else ""]
    return (first, *(line for text in below for line in _plain(text, _SMALL)))


def _grid_of_texts(table: TextTable) -> _Grid:
    readable = table.readable
    columns = []
    for place, head in enumerate(readable.head):
        texts = [row[place] for row in readable.rows]
        right = place >= readable.names and any(
            text[:1].isdigit() or text[:1] in "+-" for text in texts if text
        )
        cells = (_cell_of_text(text, right) for text in texts)
        columns.append(_Column("", _wrapped(head, _LONGEST_HEAD), tuple(cells), right))
    return _Grid(
        tuple(columns[: readable.names]), tuple(columns[readable.names :]), ("",) * len(readable.rows)
    )


def _cell_of_text(text: str, figures: bool) -> _Cell:
    if not figures:
        return _wrapped(text, _LONGEST_TEXT, _SMALL if len(text) > _LONGEST_NAME else _LARGE)
    value, _, ends = text.partition(" [")
    return (*_plain(value, _LARGE), *_plain(f"[{ends}" if ends else "", _SMALL))


def _floats(grid: _Grid, caption: str, label: str, notes: Sequence[str]) -> list[str]:
    """Return the floats of a grid: as many as its columns and rows need."""
    blocks = [(names_and_columns, rows) for rows in _pages(grid) for names_and_columns in _fitting(grid)]
    floats: list[list[tuple[tuple[_Column, ...], range]]] = [[]]
    for block in blocks:
        heights = [_height(columns, rows, grid) for columns, rows in [*floats[-1], block]]
        if floats[-1] and sum(heights) > _TALLEST:
            floats.append([])
        floats[-1].append(block)
    written = []
    for place, shown in enumerate(floats):
        environment = (
            "table" if all(_total(columns, grid) <= _ONE_COLUMN for columns, _ in shown) else "table*"
        )
        head = [rf"\begin{{{environment}}}[tp]", r"\centering"]
        if place:
            head += [r"\addtocounter{table}{-1}", r"\caption{Continued.}"]
        else:
            head += [rf"\caption{{{escape_latex(caption)}}}", rf"\label{{tab:prmcal-{label}}}"]
        body = r"\par\medskip".join(f"\n{_tabular(grid, columns, rows)}\n" for columns, rows in shown).strip()
        size = [rf"\fontsize{{{_LARGE:g}}}{{9.6}}\selectfont", rf"\setlength{{\tabcolsep}}{{{_SPACE:g}pt}}"]
        below = notes if place == len(floats) - 1 else []
        written.append("\n".join([*head, *size, body, *below, rf"\end{{{environment}}}"]) + "\n")
    return written


def _fitting(grid: _Grid) -> list[tuple[_Column, ...]]:
    """Cut the columns into as few parts as fit, if possible of equal sizes. Each begins with the names of the rows."""
    parts: list[tuple[_Column, ...]] = []
    for column in grid.columns:
        if parts and _total((*parts[-1], column), grid) <= _WIDE:
            parts[-1] = (*parts[-1], column)
        else:
            parts.append((*grid.names, column))
    size = -(-len(grid.columns) // len(parts))
    equal = [
        (*grid.names, *grid.columns[start : start + size]) for start in range(0, len(grid.columns), size)
    ]
    return equal if all(_total(columns, grid) <= _WIDE for columns in equal) else parts


def _total(columns: Sequence[_Column], grid: _Grid) -> float:
    width = 0.0
    for group, members in groupby(columns, key=lambda column: column.group):
        width += max(sum(each.width for each in members), _Line(group, "").width + 2 * _SPACE)
    headings = [line.width for heading in set(grid.headings) for line in _wrapped(heading, 2 * _LONGEST_TEXT)]
    return max(width, *headings)


def _pages(grid: _Grid) -> list[range]:
    """Cut the rows into parts that fit on a page, if possible between two headings."""
    starts = [0]
    last = 0
    for row in range(1, len(grid.headings)):
        if grid.headings[row] != grid.headings[row - 1]:
            last = row
        if _height((*grid.names, *grid.columns), range(starts[-1], row + 1), grid) > _TALLEST:
            starts.append(last if last > starts[-1] else row)
    return [range(start, end) for start, end in zip(starts, [*starts[1:], len(grid.headings)], strict=True)]


def _height(columns: Sequence[_Column], rows: range, grid: _Grid) -> float:
    lines = sum(max(len(column.cells[row]) for column in columns) for row in rows)
    headings = len([heading for heading, _ in groupby(grid.headings[row] for row in rows) if heading])
    return 9.6 * (lines + 2 * headings + 1 + max(len(column.head) for column in columns)) + 4 * len(rows) + 16


def _tabular(grid: _Grid, columns: Sequence[_Column], rows: range) -> str:
    count = len(columns)
    lines = [
        rf"\begin{{tabular}}{{@{{}}{''.join('r' if column.right else 'l' for column in columns)}@{{}}}}",
        r"\toprule",
        *_common_heads(columns),
    ]
    depth = max(len(column.head) for column in columns)
    for line in range(-depth, 0):
        heads = [column.head[line] if -line <= len(column.head) else _EMPTY for column in columns]
        lines.append(latex_line([head.code for head in heads]))
    lines.append(r"\midrule")
    before = ""
    for row in rows:
        heading = grid.headings[row]
        if heading and (heading != before or row == rows.start):
            lines += [r"\addlinespace"] if row != rows.start else []
            lines += [
                rf"\multicolumn{{{count}}}{{@{{}}l@{{}}}}{{\textit{{{line.code}}}}} \\"
                for line in _wrapped(heading, 2 * _LONGEST_TEXT)
            ]
        before = heading
        lines += [r"\addlinespace[2pt]"] if row != rows.start else []
        cells = [column.cells[row] for column in columns]
        for line in range(max(map(len, cells))):
            shown = [cell[line] if line < len(cell) else _EMPTY for cell in cells]
            lines.append(latex_line([_sized(each) for each in shown]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _common_heads(columns: Sequence[_Column]) -> list[str]:
    if not any(column.group for column in columns):
        return []
    heads, rules, start = [], [], 1
    for group, members in groupby(columns, key=lambda column: column.group):
        size = len(list(members))
        heads += [rf"\multicolumn{{{size}}}{{c}}{{{escape_latex(group)}}}"] if group else [""] * size
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + size - 1}}}")
        start += size
    return [latex_line(heads), " ".join(rules)]


def _notes(table: Table, panel: Panel) -> list[str]:
    here = {value.reason for row in panel.rows for value in row.values if value.reason}
    reasons = [
        rf"\textsuperscript{{{mark}}} {escape_latex(reason)}"
        for reason, mark in table.notes().items()
        if reason in here
    ]
    return [rf"\par\smallskip {text}" for text in (*reasons, *map(escape_latex, table.remarks))]


def _plain(text: str, size: float) -> _Cell:
    return (_Line(text, _code(text), size),) if text else ()


def _wrapped(text: str, longest: int, size: float = _LARGE) -> _Cell:
    """Break a text into lines, if possible after a blank, hyphen, underscore or plus sign."""
    lines = [""]
    for part in re.findall(rf"[^-_+/ ]{{1,{longest - 1}}}[-_+/ ]?|[-_+/ ]", " ".join(text.split())):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > longest:
            lines.append("")
        lines[-1] += part
    return tuple(line for each in lines for line in _plain(each.strip(), size)) or (_EMPTY,)


def _sized(line: _Line) -> str:
    return (
        rf"{{\fontsize{{{line.size:g}}}{{8.4}}\selectfont {line.code}}}"
        if line.text and line.size < _LARGE
        else line.code
    )


def _code(text: str) -> str:
    """Return LaTeX of a text, with minus signs before numbers."""
    code = re.sub(r"(?<![\w}])-(?=\d)", r"\\textminus{}", escape_latex(text))
    # After the end of a row, LaTeX would read a bracket as the distance to the next row.
    return f"{{{code}}}" if code.startswith("[") else code


def _width_of(letter: str) -> float:
    """Return the width of a letter in the font of 10 points, relative to its size."""
    if letter in "ijl.,:;|'![]() ":
        return 0.33 if letter == " " else 0.28
    if letter in "mwMW+=" or ord(letter) > 127:
        return 0.85
    return 0.75 if letter.isupper() else 0.5 if letter.isdigit() else 0.55
