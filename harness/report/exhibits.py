"""Exhibits of a report: tables and charts with captions and footnotes. Tables become Markdown and CSV here."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prmcal.db.text.board import Board
from prmcal.db.text.formats import escape_markdown, interval, markdown_grid, number
from prmcal.db.text.presentation import COORDINATE_TITLES, DIGITS
from prmcal.harness.report.evidence import Group, Value

if TYPE_CHECKING:
    import altair as alt


VERDICTS = ("kept", "not kept", "open")
"""Standings of values that are compared with a promise."""

_COLUMNS = (
    *("dataset", "prm", "llm", "strategy", "target", "level", "calibrator", "question_level", "metric"),
    *("value", "low", "high", "published", "prefixes", "questions", "standing", "status", "reason"),
)


def titles_of(*names: str) -> tuple[str, ...]:
    """Return the titles of the data set, the PRM and the LLM, and of further coordinates."""
    return tuple(COORDINATE_TITLES[name] for name in ("dataset", "prm", "llm", *names))


def labels_of(group: Group) -> tuple[str, str, str]:
    """Return the labels of a row that shows a group, for the usual coordinates of a panel."""
    return group.dataset, group.prm, group.llm


def numbered(reasons: Iterable[str | None]) -> dict[str, int]:
    """Number the reasons for missing values from 1, in the order of the values."""
    known = dict.fromkeys(reason for reason in reasons if reason)
    return {reason: place for place, reason in enumerate(known, 1)}


@dataclass(frozen=True)
class Row:
    """A row of values: its coordinates, and one value for each column of the panel."""

    labels: tuple[str, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Panel:
    """A rectangle of values.

    Attributes
    ----------
    name : str
        Name within the table, for labels; empty if it is the only panel.
    title : str
        Title of the values; empty if the heads have it.
    description : str
        What the values measure, and which values are better.
    heads : tuple of (str, tuple of str)
        Columns with a common head: (head, columns). An empty head is not shown.
    rows : tuple of Row
    coordinates : tuple of str
        Titles of the columns that identify a row.
    """

    name: str
    title: str
    description: str
    heads: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[Row, ...]
    coordinates: tuple[str, ...] = titles_of()


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

    def values(self) -> list[Value]:
        """Return all values, panel by panel and row by row."""
        return [value for panel in self.panels for row in panel.rows for value in row.values]

    def notes(self) -> dict[str, int]:
        """Return the reasons for missing values, with their numbers."""
        return numbered(value.reason for value in self.values())


@dataclass(frozen=True)
class TextTable(_Titled):
    """A table of texts, such as a ranking. Its notes are not shown, since the caption says the same."""

    readable: Board


@dataclass(frozen=True)
class Chart(_Titled):
    """A figure of one or more pictures.

    Attributes
    ----------
    alternative : str
        Text for readers who cannot see the pictures.
    pictures : sequence of altair Chart
        More than one if the panels do not fit on one.
    notes : dict of str to int
        Reasons for missing values, with their numbers in the pictures.
    reference : str
        The end of the caption in the report: the table that has the numbers.
    """

    alternative: str
    pictures: Sequence[alt.TopLevelMixin]
    notes: dict[str, int] = field(default_factory=dict)
    reference: str = ""

    def files(self) -> list[str]:
        """Return the names of the files of the pictures without suffix. Several are numbered."""
        if len(self.pictures) == 1:
            return [self.name]
        return [f"{self.name}-{place}" for place in range(1, len(self.pictures) + 1)]


Exhibit = Table | TextTable | Chart


def counts_text(values: Sequence[Value]) -> str:
    """Return ``prefixes / questions`` behind some values, as ranges if they differ; empty if there are no values."""
    measured = [each for each in values if each.value is not None]
    spans = [_span(each.prefixes for each in measured), _span(each.questions for each in measured)]
    return " / ".join(spans) if measured else ""


def _span(numbers: Iterable[int | None]) -> str:
    known = sorted({each for each in numbers if each is not None})
    return "-".join(f"{each:,}" for each in dict.fromkeys((known[0], known[-1]))) if known else "?"


def csv_text(table: Table | TextTable) -> str:
    """Return a table as CSV: a line for each value, for programs, or the rows of a table of texts."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if isinstance(table, TextTable):
        writer.writerows([table.readable.head, *table.readable.rows])
        return buffer.getvalue()
    writer.writerow(_COLUMNS)
    for each in table.values():
        setting = ["" if known is None else f"{known:g}" for known in (each.target, each.level)]
        numbers = ["" if known is None else f"{known:.6f}" for known in (each.value, each.low, each.high)]
        writer.writerow(
            [
                *(*labels_of(each.group), each.strategy, *setting),
                *(each.calibrator, each.question_level, each.metric, *numbers, each.published),
                *(each.prefixes, each.questions, each.standing, each.status, each.reason),
            ]
        )
    return buffer.getvalue()


def markdown(table: Table | TextTable) -> str:
    """Return a table in Markdown with title, caption and footnotes. Its headings start at level 2."""
    parts = [f"## {escape_markdown(table.title)}", escape_markdown(table.caption)]
    if isinstance(table, TextTable):
        return "\n\n".join([*parts, replace(table.readable, notes=()).markdown()])
    notes = table.notes()
    for panel in table.panels:
        parts += [f"### {escape_markdown(panel.title)}"] if panel.title else []
        parts += [escape_markdown(panel.description)] if panel.description else []
        heads = [
            "<br>".join(escape_markdown(each) for each in (head, column) if each)
            for head, columns in panel.heads
            for column in columns
        ]
        rows = [
            [
                *map(escape_markdown, shown),
                *(_markdown_value(each, notes) for each in row.values),
                counts_text(row.values),
            ]
            for row, shown in _without_repetition(panel)
        ]
        parts.append(markdown_grid([*panel.coordinates, *heads, "n"], rows, left=len(panel.coordinates)))
    return "\n\n".join([*parts, *markdown_notes(notes), *map(escape_markdown, table.remarks)]) + "\n"


def markdown_notes(notes: dict[str, int]) -> list[str]:
    """Return the footnotes as a list of one paragraph, or an empty list."""
    lines = [f"<sup>{place}</sup> {escape_markdown(reason)}" for reason, place in notes.items()]
    return ["<br>\n".join(lines)] if lines else []


def _markdown_value(value: Value, notes: dict[str, int]) -> str:
    published = f"<br><sub>paper {value.published}</sub>" if value.published else ""
    if value.value is None:
        return f"–<sup>{notes[value.reason or '']}</sup>{published}"  # noqa: RUF001
    text = number(value.value, DIGITS)
    if value.standing in VERDICTS:
        text = f"{text} ({value.standing})"
    text = {"best": f"**{text}**", "tied": f"{text} ="}.get(value.standing or "", text)
    between = "" if value.low is None or value.high is None else interval(value.low, value.high, DIGITS)
    return f"{text}{f'<br><sub>{between}</sub>' if between else ''}{published}"


def _without_repetition(panel: Panel) -> list[tuple[Row, list[str]]]:
    """Return rows with their coordinates. Coordinates that repeat the row above are empty."""
    shown: list[tuple[Row, list[str]]] = []
    before = ("",) * len(panel.coordinates)
    for row in panel.rows:
        changed = next((i for i, name in enumerate(row.labels) if name != before[i]), len(row.labels))
        shown.append((row, [name if index >= changed else "" for index, name in enumerate(row.labels)]))
        before = row.labels
    return shown
