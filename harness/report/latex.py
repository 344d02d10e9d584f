r"""Tables of a report in LaTeX, for ``\input``: TeX's own ``longtable`` breaks them between pages.

A table is as wide as the text of the page. A row of values has at most six columns; further columns are set below, in
another part of the same table. Letters have 8 points, and those of intervals 7 points.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from prmcal.db.text.formats import escape_latex, latex_line
from prmcal.harness.report.evidence import PLACE
from prmcal.harness.report.exhibits import Table, TextTable, counts_text, lines_of

_PREAMBLE = r"\usepackage{array,booktabs,longtable} and \usepackage[T1]{fontenc}"
_COLUMNS = 6  # of a page, with the names of rows
_BREAK = "\N{ZERO WIDTH SPACE}"
_LONG_WORD = re.compile(r"[^\W_]{13,}")
_BELOW = r"\providecommand{\prmcalbelow}[1]{\newline{\fontsize{7}{8.4}\selectfont #1}}"


Rows = list[tuple[str, list[str]]]
"""The rows of a table: the heading above each, which is empty if there is none, and its cells."""


def latex(table: Table | TextTable) -> str:
    r"""Return a table in LaTeX. Its first line names the packages that the preamble needs.

    ``longtable`` does not work in two columns: there, a table belongs behind ``\onecolumn``.
    """
    first = f"% {table.name}. The preamble needs {_PREAMBLE}.\n{_BELOW}\n"
    # LaTeX numbers tables itself, so the number in "Table 2: best-of-n" is dropped.
    subject = table.title.partition(": ")[2] or table.title
    subject = f"{subject[0].upper()}{subject[1:]}"
    if isinstance(table, TextTable):
        board = table.readable
        rows: Rows = [
            ("", [_lines(text.replace(" [", "\n[").split("\n")) for text in row]) for row in board.rows
        ]
        heads = list(map(_code, board.head))
        return first + _longtables(board.names, heads, rows, f"{subject}. {table.caption}", table.name)
    notes, parts = table.notes(), list[str]()
    for panel in table.panels:
        named = f"{subject}{f' ({panel.title})' if panel.title else ''}."
        caption = " ".join(text for text in (named, panel.description, table.caption) if text)
        label = "-".join(part for part in (table.name, panel.name) if part)
        # Names above a row: all but the last, or data set, PRM and LLM if there are several others.
        above = len(panel.names) - 1 if len(panel.names) <= len(PLACE) + 1 else len(PLACE)
        heads = [*map(_code, panel.titles[above:])]
        heads += [r"\newline ".join(_code(each) for each in head if each) for head in panel.heads]
        rows = [
            (", ".join(map(_code, names[:above])), _cells(names[above:], row, notes))
            for names, row in panel.rows
        ]
        parts.append(_longtables(len(panel.names) - above, heads, rows, caption, label))
    parts += [rf"\noindent ({mark}) {_code(reason)}\par" for reason, mark in notes.items()]
    return first + "\n".join([*parts, *(f"\\noindent {_code(text)}\\par" for text in table.remarks)]) + "\n"


def _cells(names: Sequence[str], row: Sequence[Mapping[str, Any]], notes: Mapping[str, int]) -> list[str]:
    first, *others = names
    counts = counts_text(row)
    named = _lines([first, f"n = {counts}"] if counts else [first])
    return [named, *map(_code, others), *(_lines(lines_of(value, notes)) for value in row)]


def _lines(lines: Sequence[str]) -> str:
    """Return the first line, and the others in small letters below it."""
    return _code(lines[0]) + "".join(rf"\prmcalbelow{{{_code(each)}}}" for each in lines[1:])


def _longtables(names: int, heads: Sequence[str], rows: Rows, caption: str, label: str) -> str:
    """Return as many longtables as the columns need, with parts of equal sizes. They share one number.

    `names` is the number of columns, from the left, that name a row.
    """
    values = range(names, len(heads))
    size = -(-len(values) // -(-len(values) // (_COLUMNS - names)))
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    tables = []
    for place, part in enumerate(parts):
        columns = [*range(names), *part]
        first = rf"\caption{{{escape_latex(caption)}}}\label{{tab:prmcal-{label}}} \\"
        # The names of rows get the room that values leave.
        width = (_COLUMNS - len(part)) / (_COLUMNS * names)
        layout = _columns(names, width, "right") + _columns(len(part), 1 / _COLUMNS, "left")
        head = rf"\toprule{chr(10)}{latex_line([heads[i] for i in columns])}{chr(10)}\midrule"
        tables += [
            r"\begingroup\fontsize{8}{9.6}\selectfont\setlength{\tabcolsep}{3pt}",
            *([r"\addtocounter{table}{-1}"] if place else []),
            rf"\begin{{longtable}}{{@{{}}{layout}@{{}}}}",
            *([] if place else [first]),
            rf"{head}\endfirsthead",
            rf"\multicolumn{{{len(columns)}}}{{@{{}}l@{{}}}}{{\textit{{Continued.}}}} \\",
            rf"{head}\endhead",
            r"\bottomrule\endlastfoot",
        ]
        for number, (heading, members) in enumerate(groupby(rows, key=lambda row: row[0])):
            tables += [r"\addlinespace"] if number else []
            span = rf"\multicolumn{{{len(columns)}}}{{@{{}}p{{\linewidth}}@{{}}}}"
            tables += [rf"{span}{{\raggedright\textit{{{heading}}}}} \\*"] if heading else []
            tables += [latex_line([cells[i] for i in columns]) for _, cells in members]
        tables.append(r"\end{longtable}\endgroup")
    return "\n".join(tables)


def _columns(count: int, share: float, side: str) -> str:
    """Return the layout of some columns, each with a share of the width of a line."""
    width = rf"\dimexpr{share:.4f}\linewidth-2\tabcolsep\relax"
    return rf"*{{{count}}}{{>{{\ragged{side}\arraybackslash}}p{{{width}}}}}" if count else ""


def _code(text: str) -> str:
    """Return LaTeX of a text, with minus signs before numbers. Long names may break after any eight letters."""
    breakable = re.sub(r"([_+/:])(?=\w)", rf"\1{_BREAK}", text)
    breakable = _LONG_WORD.sub(lambda word: re.sub(r"(.{8})(?=.)", rf"\1{_BREAK}", word[0]), breakable)
    code = re.sub(r"(?<![\w}])-(?=\d)", r"\\textminus{}", escape_latex(breakable))
    code = code.replace(_BREAK, r"\allowbreak{}")
    # After the end of a row, LaTeX would read a bracket as the distance to the next row.
    return f"{{{code}}}" if code.startswith("[") else code
