"""Exhibits of a report: tables and charts with captions and footnotes. Tables become Markdown and CSV here."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.text import formats
from prmcal.db.text.board import Board
from prmcal.harness.report.evidence import PLACE

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

CAPTIONS: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("captions.toml").read_text(encoding="utf-8")
)
"""Captions of exhibits, by their names."""

_COLUMNS = (
    *("dataset", "prm", "llm", "strategy", "target", "level", "calibrator", "question_level", "metric"),
    *("value", "low", "high", "published", "prefixes", "questions", "standing", "status", "reason"),
)
_TITLES = {**formats.COORDINATE_TITLES, "question_level": "Difficulty"}
_FORMATS = {
    **{"target": "g", "level": "g", "value": ".6f", "low": ".6f", "high": ".6f"},
    **{"prefixes": ".0f", "questions": ".0f"},
}


def numbered(reasons: Iterable[str | None]) -> dict[str, int]:
    """Number the reasons for missing values from 1, in the order of the values."""
    known = dict.fromkeys(reason for reason in reasons if reason)
    return {reason: place for place, reason in enumerate(known, 1)}


def lines_of(row: Mapping[str, Any], notes: Mapping[str, int]) -> list[str]:
    """Return the lines of a value: the value with its mark, its interval, the paper's number and the difference."""
    published = f"paper {row['published']}" if row.get("published") else ""
    if row["value"] is None:
        return [f"\N{EN DASH} ({notes[row['reason']]})", *([published] if published else [])]
    mark = formats.MARKS.get(row["standing"], "")
    between = "" if row["low"] is None else formats.interval(row["low"], row["high"], formats.DIGITS)
    if published:
        published += (
            f" ({formats.number(row['value'] - float(row['published']), formats.DIGITS, signed=True)})"
        )
    return [
        each for each in (formats.number(row["value"], formats.DIGITS) + mark, between, published) if each
    ]


@dataclass(frozen=True, eq=False)
class Panel:
    """A rectangle of values.

    The name (for labels) and the title are empty if it is the only panel, or if the heads say the same. The description
    says what the values measure, and which are better. The values come from
    :func:`prmcal.harness.report.evidence.values`, row by row: every row has the same columns. Their column ``column``
    has the head of each value, ``head`` what several columns have in common, if it is there, and `names` are the
    columns that identify a row.
    """

    name: str
    title: str
    description: str
    values: "pd.DataFrame"
    names: tuple[str, ...] = PLACE

    @property
    def rows(self) -> list[tuple[list[str], list[dict[Any, Any]]]]:
        """The names and the values of each row."""
        found = groupby(self.values.to_dict("records"), key=lambda each: [each[name] for name in self.names])
        return [
            ([f"{name:g}" if isinstance(name, float) else str(name) for name in names], list(row))
            for names, row in found
        ]

    @property
    def titles(self) -> list[str]:
        """The titles of the names."""
        return [_TITLES[name] for name in self.names]

    @property
    def heads(self) -> list[tuple[str, str]]:
        """The common head, which may be empty, and the own head of each column."""
        return [(each.get("head", ""), each["column"]) for each in self.rows[0][1]]


@dataclass(frozen=True)
class _Titled:
    """The name of the files of an exhibit, its title and its caption, both in plain text."""

    name: str
    title: str
    caption: str


@dataclass(frozen=True)
class Table(_Titled):
    """A table of one or more panels."""

    panels: tuple[Panel, ...]

    def notes(self) -> dict[str, int]:
        """Return the reasons for missing values, with their numbers."""
        return numbered(reason for panel in self.panels for reason in panel.values["reason"])


@dataclass(frozen=True)
class TextTable(_Titled):
    """A table of texts, such as a ranking. Its notes are not shown, since the caption says the same."""

    readable: Board


@dataclass(frozen=True)
class Chart(_Titled):
    """A figure with its text for readers who cannot see it.

    `notes` are reasons for missing values, with their numbers in the picture.
    """

    alternative: str
    picture: "alt.TopLevelMixin"
    notes: dict[str, int] = field(default_factory=dict)


Exhibit = Table | TextTable | Chart


def counts_text(row: Sequence[Mapping[str, Any]]) -> str:
    """Return ``prefixes / questions`` behind some values, as ranges if they differ; empty if there are no values."""
    measured = [each for each in row if each["value"] is not None]
    spans = [span_text(each[name] for each in measured) for name in ("prefixes", "questions")]
    return " / ".join(spans) if measured else ""


def span_text(numbers: Iterable[float | None], between: str = "-", none: str = "?") -> str:
    """Return the smallest and the largest number that is known, or the one if all are the same."""
    known = sorted({each for each in numbers if each is not None})
    return between.join(f"{each:,.0f}" for each in dict.fromkeys((known[0], known[-1]))) if known else none


def csv_text(table: Table | TextTable) -> str:
    """Return a table as CSV: a line for each value, for programs, or the rows of a table of texts."""
    import pandas as pd

    if isinstance(table, TextTable):
        rows = pd.DataFrame(table.readable.rows, columns=table.readable.head)
    else:
        rows = pd.concat([panel.values for panel in table.panels]).reindex(columns=list(_COLUMNS))
        for name, digits in _FORMATS.items():
            rows[name] = rows[name].map(f"{{:{digits}}}".format, na_action="ignore")
    return str(rows.to_csv(index=False, lineterminator="\n"))


def markdown(table: Table | TextTable) -> str:
    """Return a table in Markdown with title, caption and footnotes. Its headings start at level 2."""
    parts = [f"## {formats.escape_markdown(table.title)}", formats.escape_markdown(table.caption)]
    if isinstance(table, TextTable):
        return "\n\n".join([*parts, replace(table.readable, notes=()).markdown()])
    notes = table.notes()
    for panel in table.panels:
        parts += [f"### {formats.escape_markdown(panel.title)}"] if panel.title else []
        parts += [formats.escape_markdown(panel.description)] if panel.description else []
        heads = [_markdown_lines(head) for head in panel.heads]
        rows = [
            [
                *map(formats.escape_markdown, names),
                *(_markdown_lines(lines_of(each, notes)) for each in row),
                counts_text(row),
            ]
            for names, row in panel.rows
        ]
        parts.append(formats.markdown_grid([*panel.titles, *heads, "n"], rows, left=len(panel.names)))
    return "\n\n".join([*parts, *markdown_notes(notes)]) + "\n"


def _markdown_lines(lines: Iterable[str]) -> str:
    return "<br>".join(formats.escape_markdown(each) for each in lines if each)


def markdown_notes(notes: Mapping[str, int]) -> list[str]:
    """Return the footnotes as a list of one paragraph, or an empty list."""
    lines = [f"({place}) {formats.escape_markdown(reason)}" for reason, place in notes.items()]
    return ["<br>\n".join(lines)] if lines else []


_PREAMBLE = r"\usepackage{array,booktabs,longtable} and \usepackage[T1]{fontenc}"
_OF_A_PAGE = 6  # of a page, with the names of rows
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
    return first + "\n".join(parts) + "\n"


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
    size = -(-len(values) // -(-len(values) // (_OF_A_PAGE - names)))
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    tables = []
    for place, part in enumerate(parts):
        columns = [*range(names), *part]
        first = rf"\caption{{{formats.escape_latex(caption)}}}\label{{tab:prmcal-{label}}} \\"
        # The names of rows get the room that values leave.
        width = (_OF_A_PAGE - len(part)) / (_OF_A_PAGE * names)
        layout = _columns(names, width, "right") + _columns(len(part), 1 / _OF_A_PAGE, "left")
        head = rf"\toprule{chr(10)}{_row(heads[i] for i in columns)}{chr(10)}\midrule"
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
        for group, (heading, members) in enumerate(groupby(rows, key=lambda row: row[0])):
            tables += [r"\addlinespace"] if group else []
            span = rf"\multicolumn{{{len(columns)}}}{{@{{}}p{{\linewidth}}@{{}}}}"
            tables += [rf"{span}{{\raggedright\textit{{{heading}}}}} \\*"] if heading else []
            tables += [_row(cells[i] for i in columns) for _, cells in members]
        tables.append(r"\end{longtable}\endgroup")
    return "\n".join(tables)


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _columns(count: int, share: float, side: str) -> str:
    """Return the layout of some columns, each with a share of the width of a line."""
    width = rf"\dimexpr{share:.4f}\linewidth-2\tabcolsep\relax"
    return rf"*{{{count}}}{{>{{\ragged{side}\arraybackslash}}p{{{width}}}}}" if count else ""


def _code(text: str) -> str:
    """Return LaTeX of a text, with minus signs before numbers. Long names may break after any eight letters."""
    breakable = re.sub(r"([_+/:])(?=\w)", rf"\1{_BREAK}", text)
    breakable = _LONG_WORD.sub(lambda word: re.sub(r"(.{8})(?=.)", rf"\1{_BREAK}", word[0]), breakable)
    code = re.sub(r"(?<![\w}])-(?=\d)", r"\\textminus{}", formats.escape_latex(breakable))
    code = code.replace(_BREAK, r"\allowbreak{}")
    # After the end of a row, LaTeX would read a bracket as the distance to the next row.
    return f"{{{code}}}" if code.startswith("[") else code
