"""What a report shows: tables and figures, each with its caption and its footnotes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prmcal.harness.report.evidence import Place, Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Chart", "Exhibit", "Panel", "Row", "Table", "counts_text", "numbered"]


def numbered(reasons: Iterable[str | None]) -> dict[str, int]:
    """Number reasons for missing values from 1, in the order in which a reader meets them."""
    known = dict.fromkeys(reason for reason in reasons if reason)
    return {reason: number for number, reason in enumerate(known, 1)}


@dataclass(frozen=True)
class Row:
    """A (data set, PRM, LLM) and its values, one for each column of the panel."""

    place: Place
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Panel:
    """A rectangle of values.

    Attributes
    ----------
    name : str
        Tells it apart within its table, in file names and labels; empty if it is the only one.
    title : str
        What its values are; empty if the columns say so.
    description : str
        What that measures and which values are good.
    groups : tuple of (str, tuple of str)
        Columns under a common head: (head, columns). An empty head is left out.
    rows : tuple of Row
    """

    name: str
    title: str
    description: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table of one or several panels.

    Attributes
    ----------
    name : str
        Of its files.
    title, caption : str
        Plain text.
    panels : tuple of Panel
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]

    def values(self) -> list[Value]:
        """Every value of the table, panel by panel and row by row."""
        return [value for panel in self.panels for row in panel.rows for value in row.values]

    def notes(self) -> dict[str, int]:
        """The reasons for missing values, with their numbers."""
        return numbered(value.reason for value in self.values())


@dataclass(frozen=True)
class Chart:
    """A figure of one or several pictures.

    Attributes
    ----------
    name : str
        Of its files.
    title, caption : str
        Plain text.
    alternative : str
        What a reader who cannot see the picture is told.
    pictures : sequence of matplotlib Figure
        More than one where all panels would not fit on one.
    notes : dict of str to int
        Reasons for what is missing, with the numbers that the pictures give them.
    """

    name: str
    title: str
    caption: str
    alternative: str
    pictures: Sequence[Figure]
    notes: dict[str, int] = field(default_factory=dict)


Exhibit = Table | Chart


def counts_text(values: Sequence[Value]) -> str:
    """``prefixes / questions`` behind some values, from the smallest to the largest; empty if there are none."""
    measured = [each for each in values if each.value is not None]
    spans = [_span(each.prefixes for each in measured), _span(each.questions for each in measured)]
    return " / ".join(spans) if measured else ""


def _span(numbers: Iterable[int | None]) -> str:
    known = sorted({number for number in numbers if number is not None})
    return "-".join(f"{number:,}" for number in dict.fromkeys((known[0], known[-1]))) if known else "?"
