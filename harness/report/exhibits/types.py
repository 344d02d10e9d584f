"""Exhibits of a report: tables and charts, with captions and footnotes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prmcal.db.text.presentation import COORDINATE_TITLES
from prmcal.db.text.readable import Readable
from prmcal.harness.report.evidence.values import Group, Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Chart", "Exhibit", "Panel", "Row", "Table", "TextTable", "counts_text", "labels_of", "numbered"]


def labels_of(group: Group) -> tuple[str, str, str]:
    """Return the labels of a row that shows a group, for the usual coordinates of a panel."""
    return group.dataset, group.prm, group.llm


def numbered(reasons: Iterable[str | None]) -> dict[str, int]:
    """Number the reasons for missing values from 1, in the order of the values."""
    known = dict.fromkeys(reason for reason in reasons if reason)
    return {reason: number for number, reason in enumerate(known, 1)}


@dataclass(frozen=True)
class Row:
    """A row of values, one for each column of the panel.

    Attributes
    ----------
    labels : tuple of str
        Its coordinates, one for each coordinate of the panel.
    values : tuple of Value
    """

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
    coordinates: tuple[str, ...] = tuple(COORDINATE_TITLES[name] for name in ("dataset", "prm", "llm"))


@dataclass(frozen=True)
class _Titled:
    """What all exhibits share.

    Attributes
    ----------
    name : str
        Name of its files.
    title, caption : str
        Plain text.
    """

    name: str
    title: str
    caption: str


@dataclass(frozen=True)
class Table(_Titled):
    """A table of one or more panels.

    Attributes
    ----------
    panels : tuple of Panel
    remarks : tuple of str
        Paragraphs below the table, in plain text: what its values mean.
    """

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
    """A table of texts, such as a ranking.

    Attributes
    ----------
    readable : Readable
        The table. Its notes are not shown, since the caption says the same.
    """

    readable: Readable


@dataclass(frozen=True)
class Chart(_Titled):
    """A figure of one or more pictures.

    Attributes
    ----------
    alternative : str
        Text for readers who cannot see the pictures.
    pictures : sequence of matplotlib Figure
        More than one if the panels do not fit on one.
    notes : dict of str to int
        Reasons for missing values, with their numbers in the pictures.
    """

    alternative: str
    pictures: Sequence[Figure]
    notes: dict[str, int] = field(default_factory=dict)


Exhibit = Table | TextTable | Chart


def counts_text(values: Sequence[Value]) -> str:
    """Return ``prefixes / questions`` behind some values, as ranges if they differ; empty if there are no values."""
    measured = [each for each in values if each.value is not None]
    spans = [_span(each.prefixes for each in measured), _span(each.questions for each in measured)]
    return " / ".join(spans) if measured else ""


def _span(numbers: Iterable[int | None]) -> str:
    known = sorted({number for number in numbers if number is not None})
    return "-".join(f"{number:,}" for number in dict.fromkeys((known[0], known[-1]))) if known else "?"
