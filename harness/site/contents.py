"""The contents of the page: both leaderboards with failed cells, and separately the numbers of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prmcal.db.metrics import Leaderboard, Metric
from prmcal.db.queries.reported import REPORTED_TABLES, reported
from prmcal.db.statistics.standings import last_places
from prmcal.db.text.formats import number
from prmcal.db.text.presentation import (
    COORDINATE_TITLES,
    DIGITS,
    LEADERBOARDS,
    SYMBOLS,
    leaderboard_legend,
    metric_title,
    metrics_of,
)
from prmcal.db.text.readable import missing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Board", "Entry", "Line", "PaperTable", "board", "paper_tables"]

_MINUS, _DASH = "\N{MINUS SIGN}", "\N{EN DASH}"


@dataclass(frozen=True)
class Entry:
    """A number of a leaderboard: its value, and the text that is shown."""

    value: float | None
    text: str
    interval: str = ""
    mark: str = ""
    best: bool = False


@dataclass(frozen=True)
class Line:
    """A cell of the grid: its coordinates as text, one entry for each metric, and the counts behind them."""

    cell_id: str
    names: dict[str, str]
    entries: tuple[Entry, ...]
    questions: str
    rows: str
    status: str
    reason: str


@dataclass(frozen=True)
class Board:
    """A leaderboard.

    Attributes
    ----------
    name, title, caption : str
    names : tuple of str
        Names of the coordinates that its cells have.
    metrics : tuple of Metric
        Columns.
    main : tuple of str
        Names of the metrics that are shown first.
    rows : str
        Title of the column ``rows``.
    lines : tuple of Line
        Cells in the order of the grid.
    """

    name: str
    title: str
    caption: str
    names: tuple[str, ...]
    metrics: tuple[Metric, ...]
    main: tuple[str, ...]
    rows: str
    lines: tuple[Line, ...]

    @property
    def failed(self) -> list[Line]:
        """The failed cells, which have a reason instead of numbers."""
        return [line for line in self.lines if line.status == "failed"]

    def choices(self, name: str) -> list[str]:
        """Return the values of a coordinate, in the order of the grid."""
        return list(dict.fromkeys(line.names[name] for line in self.lines if line.names[name]))


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper as text: heads and rows."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def board(frame: pd.DataFrame, name: Leaderboard) -> Board:
    """Prepare a leaderboard, as :func:`prmcal.db.queries.leaderboard.leaderboard` returns it, for the page."""
    metrics = tuple(
        metric for metric in metrics_of(name) if metric.name in frame and frame[metric.name].notna().any()
    )
    text = LEADERBOARDS[name]
    last = {metric.name: last_places(frame, metric.name, metric.better) for metric in metrics}
    return Board(
        name=name,
        title=text.title,
        caption=f"{text.description} {leaderboard_legend(SYMBOLS)}",
        names=tuple(each for each in COORDINATE_TITLES if frame[each].notna().any()),
        metrics=metrics,
        main=text.main_metrics,
        rows=text.rows,
        lines=tuple(_line(row, last) for row in frame.to_dict("records")),
    )


def paper_tables() -> list[PaperTable]:
    """Return the tables of the paper."""
    numbers = reported()
    return [
        _paper_table(title, numbers[numbers["table"] == label]) for label, title in REPORTED_TABLES.items()
    ]


def _line(row: dict[str, Any], last: Mapping[str, Set[str]]) -> Line:
    """Return a cell; `last` has the last places of each metric that is shown."""
    return Line(
        cell_id=row["cell_id"],
        names={name: _name(row[name]) for name in COORDINATE_TITLES},
        entries=tuple(_entry(row, metric, row["cell_id"] in cells) for metric, cells in last.items()),
        questions=_count(row["questions"]),
        rows=_count(row["rows"]),
        status=row["status"],
        reason="" if missing(row["reason"]) else str(row["reason"]),
    )


def _entry(row: dict[str, Any], metric: str, last: bool) -> Entry:
    value = row[metric]
    if row["status"] != "done" or missing(value):
        return Entry(None, row["status"] if row["status"] != "done" else _DASH)
    ends = (row[f"{metric}_low"], row[f"{metric}_high"])
    standing = "last" if last else row[f"{metric}_standing"]
    letters = row[f"{metric}_letters"]
    marks = [SYMBOLS.get(standing, ""), letters if isinstance(letters, str) else ""]
    return Entry(
        value=float(value),
        text=_number(value),
        interval="" if any(map(missing, ends)) else f"[{', '.join(map(_number, ends))}]",
        mark=" ".join(filter(None, marks)),
        best=standing == "best",
    )


def _paper_table(title: str, numbers: pd.DataFrame) -> PaperTable:
    used = [name for name in COORDINATE_TITLES if name in numbers and numbers[name].notna().any()]
    metrics = list(dict.fromkeys(numbers["metric"]))
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in numbers.to_dict("records"):
        place = tuple(_name(row[name]) for name in used)
        found.setdefault(place, {})[row["metric"]] = _number(row["value"], row["digits"])
    return PaperTable(
        title=title,
        heads=(*(COORDINATE_TITLES[name] for name in used), *(metric_title(metric) for metric in metrics)),
        rows=tuple(
            (*place, *(values.get(metric, _DASH) for metric in metrics)) for place, values in found.items()
        ),
    )


def _name(value: Any) -> str:
    if missing(value):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _count(value: Any) -> str:
    return _DASH if missing(value) else f"{int(value):,}"


def _number(value: float, digits: int = DIGITS) -> str:
    return number(value, digits).replace("-", _MINUS)
