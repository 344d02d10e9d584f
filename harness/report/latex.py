r"""Tables of a report in LaTeX, for ``\input``: TeX's own ``longtable`` breaks them between pages.

A table is as wide as the text of the page. A row of values has at most six columns; further columns are set below, in
another part of the same table. Letters have 8 points, and those of intervals 7 points.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from prmcal.db.text.formats import escape_latex, latex_line
from prmcal.harness.report.exhibits import Panel, Skin, Table, TextTable, counts_text

_PREAMBLE = r"\usepackage{array,booktabs,longtable} and \usepackage[T1]{fontenc}"
_COLUMNS = 6  # of a page, with the names of rows
_OTHER_HEADINGS = 3  # data set, PRM and LLM, if more columns identify a row
_BREAK = "\N{ZERO WIDTH SPACE}"
_LONG_WORD = re.compile(r"[^\W_]{13,}")
_BELOW = r"\providecommand{\prmcalbelow}[1]{\newline{\fontsize{7}{8.4}\selectfont #1}}"


@dataclass(frozen=True)
class _Grid:
    """A table in LaTeX.

    Attributes
    ----------
    names : int
        Number of columns, from the left, that name a row.
    heads : list of str
    rows : list of (str, list of str)
        The heading above each row, which is empty if there is none, and its cells.
    """

    names: int
    heads: list[str]
    rows: list[tuple[str, list[str]]]


def latex(table: Table | TextTable) -> str:
    r"""Return a table in LaTeX. Its first line names the packages that the preamble needs.

    ``longtable`` does not work in two columns: there, a table belongs behind ``\onecolumn``.
    """
    first = f"% {table.name}. The preamble needs {_PREAMBLE}.\n{_BELOW}\n"
    # LaTeX numbers tables itself, so the number in "Table 2: best-of-n" is dropped.
    subject = table.title.partition(": ")[2] or table.title
    subject = f"{subject[0].upper()}{subject[1:]}"
    if isinstance(table, TextTable):
        return first + _longtables(_grid_of_texts(table), f"{subject}. {table.caption}", table.name)
    notes, parts = table.notes(), list[str]()
    for panel in table.panels:
        named = f"{subject}{f' ({panel.title})' if panel.title else ''}."
        caption = " ".join(text for text in (named, panel.description, table.caption) if text)
        label = "-".join(part for part in (table.name, panel.name) if part)
        parts.append(_longtables(_grid_of_panel(panel, notes), caption, label))
        parts += [
            rf"\noindent\textsuperscript{{{mark}}} {_code(reason)}\par"
            for reason, mark in notes.items()
            if reason in set(panel.values["reason"])
        ]
    return first + "\n".join([*parts, *(f"\\noindent {_code(text)}\\par" for text in table.remarks)]) + "\n"


def _grid_of_panel(panel: Panel, notes: dict[str, int]) -> _Grid:
    count = len(panel.names)
    headings = _OTHER_HEADINGS if count > _OTHER_HEADINGS + 1 else count - 1
    rows = []
    for names, row in panel.rows:
        first, *others = map(_code, names[headings:])
        counts = counts_text(row)
        cells = [first + (_below(f"n = {counts}") if counts else ""), *others]
        cells += [_LATEX.cell(value, notes) for value in row]
        rows.append((", ".join(map(_code, names[:headings])), cells))
    heads = [*map(_code, panel.titles[headings:])]
    heads += [r"\newline ".join(_code(each) for each in head if each) for head in panel.heads]
    return _Grid(count - headings, heads, rows)


def _grid_of_texts(table: TextTable) -> _Grid:
    readable = table.readable
    rows = [("", [_cell_of_text(text) for text in row]) for row in readable.rows]
    return _Grid(readable.names, list(map(_code, readable.head)), rows)


def _cell_of_text(text: str) -> str:
    value, _, ends = text.partition(" [")
    return _code(value) + (_below(f"[{ends}") if ends else "")


def _longtables(grid: _Grid, caption: str, label: str) -> str:
    """Return as many longtables as the columns of a grid need, with parts of equal sizes. They share one number."""
    values = range(grid.names, len(grid.heads))
    most = _COLUMNS - grid.names
    size = -(-len(values) // -(-len(values) // most))
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    return "\n".join(
        _longtable(grid, [*range(grid.names), *part], caption if place == 0 else "", label)
        for place, part in enumerate(parts)
    )


def _longtable(grid: _Grid, columns: Sequence[int], caption: str, label: str) -> str:
    count, values = len(columns), len(columns) - grid.names
    width = (_COLUMNS - values) / (_COLUMNS * grid.names)  # The names of rows get the room that values leave.
    layout = _columns(grid.names, width, "right") + _columns(values, 1 / _COLUMNS, "left")
    heads = "\n".join([r"\toprule", latex_line([grid.heads[i] for i in columns])])
    lines = [
        r"\begingroup\fontsize{8}{9.6}\selectfont\setlength{\tabcolsep}{3pt}",
        *([] if caption else [r"\addtocounter{table}{-1}"]),
        rf"\begin{{longtable}}{{@{{}}{layout}@{{}}}}",
        *([rf"\caption{{{escape_latex(caption)}}}\label{{tab:prmcal-{label}}} \\"] if caption else []),
        heads,
        r"\midrule\endfirsthead",
        rf"\multicolumn{{{count}}}{{@{{}}l@{{}}}}{{\textit{{Continued.}}}} \\",
        heads,
        r"\midrule\endhead",
        r"\bottomrule\endlastfoot",
    ]
    for place, (heading, rows) in enumerate(groupby(grid.rows, key=lambda row: row[0])):
        lines += [r"\addlinespace"] if place else []
        if heading:
            lines.append(
                rf"\multicolumn{{{count}}}{{@{{}}p{{\linewidth}}@{{}}}}{{\raggedright\textit{{{heading}}}}} \\*"
            )
        lines += [latex_line([cells[i] for i in columns]) for _, cells in rows]
    return "\n".join([*lines, r"\end{longtable}\endgroup"])


def _columns(count: int, share: float, side: str) -> str:
    """Return the layout of some columns, each with a share of the width of a line."""
    return rf"*{{{count}}}{{>{{\ragged{side}\arraybackslash}}p{{{_width(share)}}}}}" if count else ""


def _width(share: float) -> str:
    return rf"\dimexpr{share:.4f}\linewidth-2\tabcolsep\relax"


def _below(text: str) -> str:
    return rf"\prmcalbelow{{{_code(text)}}}"


def _code(text: str) -> str:
    """Return LaTeX of a text, with minus signs before numbers. Long names may break after any eight letters."""
    breakable = re.sub(r"([_+/:])(?=\w)", rf"\1{_BREAK}", text)
    breakable = _LONG_WORD.sub(lambda word: re.sub(r"(.{8})(?=.)", rf"\1{_BREAK}", word[0]), breakable)
    code = re.sub(r"(?<![\w}])-(?=\d)", r"\\textminus{}", escape_latex(breakable))
    code = code.replace(_BREAK, r"\allowbreak{}")
    # After the end of a row, LaTeX would read a bracket as the distance to the next row.
    return f"{{{code}}}" if code.startswith("[") else code


_LATEX = Skin(
    _code, r"\textbf{{{}}}".format, r"--\textsuperscript{{{}}}".format, _below, r"\textsuperscript{=}"
)
