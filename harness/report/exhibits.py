"""Exhibits of a report: tables and charts with captions and footnotes. Tables become Markdown and CSV here."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from prmcal.db.text.board import Board
from prmcal.db.text.formats import escape_markdown, interval, markdown_grid, number
from prmcal.db.text.presentation import COORDINATE_TITLES, DIGITS, MARKS
from prmcal.harness.report.evidence import PLACE

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


VERDICTS = ("kept", "not kept", "open")
"""Standings of values that are compared with a promise."""

_COLUMNS = (
    *("dataset", "prm", "llm", "strategy", "target", "level", "calibrator", "question_level", "metric"),
    *("value", "low", "high", "published", "prefixes", "questions", "standing", "status", "reason"),
)
_TITLES = {**COORDINATE_TITLES, "question_level": "Difficulty"}
_FORMATS = {"target": "g", "level": "g", "value": ".6f", "low": ".6f", "high": ".6f"}


def numbered(reasons: Iterable[str | None]) -> dict[str, int]:
    """Number the reasons for missing values from 1, in the order of the values."""
    known = dict.fromkeys(reason for reason in reasons if reason)
    return {reason: place for place, reason in enumerate(known, 1)}


def lines_of(row: Mapping[str, Any], notes: Mapping[str, int]) -> list[str]:
    """Return the lines of a value: the value with its mark, its interval, and the number of the paper."""
    published = f"paper {row['published']}" if row.get("published") else ""
    if row["value"] is None:
        return [f"\N{EN DASH} ({notes[row['reason']]})", *([published] if published else [])]
    standing = row["standing"]
    mark = f" ({standing})" if standing in VERDICTS else MARKS.get(standing, "")
    between = "" if row["low"] is None else interval(row["low"], row["high"], DIGITS)
    return [each for each in (number(row["value"], DIGITS) + mark, between, published) if each]


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
    values: pd.DataFrame
    names: tuple[str, ...] = PLACE

    @property
    def rows(self) -> list[tuple[list[str], list[dict[Any, Any]]]]:
        """The names and the values of each row."""
        found = groupby(self.values.to_dict("records"), key=lambda each: [each[name] for name in self.names])
        return [([_plain(name) for name in names], list(row)) for names, row in found]

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
    """A table of one or more panels, with remarks below it: paragraphs of plain text."""

    panels: tuple[Panel, ...]
    remarks: tuple[str, ...] = ()

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
    picture: alt.TopLevelMixin
    notes: dict[str, int] = field(default_factory=dict)


Exhibit = Table | TextTable | Chart


def counts_text(row: Sequence[Mapping[str, Any]]) -> str:
    """Return ``prefixes / questions`` behind some values, as ranges if they differ; empty if there are no values."""
    measured = [each for each in row if each["value"] is not None]
    spans = [_span(each[name] for each in measured) for name in ("prefixes", "questions")]
    return " / ".join(spans) if measured else ""


def _span(numbers: Iterable[int | None]) -> str:
    known = sorted({each for each in numbers if each is not None})
    return "-".join(f"{each:,.0f}" for each in dict.fromkeys((known[0], known[-1]))) if known else "?"


def csv_text(table: Table | TextTable) -> str:
    """Return a table as CSV: a line for each value, for programs, or the rows of a table of texts."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if isinstance(table, TextTable):
        writer.writerows([table.readable.head, *table.readable.rows])
        return buffer.getvalue()
    writer.writerow(_COLUMNS)
    for panel in table.panels:
        for row in panel.values.to_dict("records"):
            writer.writerow([_digits(name, row.get(name)) for name in _COLUMNS])
    return buffer.getvalue()


def _digits(name: str, value: Any) -> str:
    if value is None:
        return ""
    return f"{value:{'.0f' if name in ('prefixes', 'questions') else _FORMATS.get(name, '')}}"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def markdown(table: Table | TextTable) -> str:
    """Return a table in Markdown with title, caption and footnotes. Its headings start at level 2."""
    parts = [f"## {escape_markdown(table.title)}", escape_markdown(table.caption)]
    if isinstance(table, TextTable):
        return "\n\n".join([*parts, replace(table.readable, notes=()).markdown()])
    notes = table.notes()
    for panel in table.panels:
        parts += [f"### {escape_markdown(panel.title)}"] if panel.title else []
        parts += [escape_markdown(panel.description)] if panel.description else []
        heads = [_markdown_lines(head) for head in panel.heads]
        rows = [
            [
                *map(escape_markdown, names),
                *(_markdown_lines(lines_of(each, notes)) for each in row),
                counts_text(row),
            ]
            for names, row in panel.rows
        ]
        parts.append(markdown_grid([*panel.titles, *heads, "n"], rows, left=len(panel.names)))
    return "\n\n".join([*parts, *markdown_notes(notes), *map(escape_markdown, table.remarks)]) + "\n"


def _markdown_lines(lines: Iterable[str]) -> str:
    return "<br>".join(escape_markdown(each) for each in lines if each)


def markdown_notes(notes: Mapping[str, int]) -> list[str]:
    """Return the footnotes as a list of one paragraph, or an empty list."""
    lines = [f"({place}) {escape_markdown(reason)}" for reason, place in notes.items()]
    return ["<br>\n".join(lines)] if lines else []
