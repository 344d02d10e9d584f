"""What stands on the page: both leaderboards with their failures, and the paper's numbers apart from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from prmcal.db.queries.leaderboard import METRICS, SIGNIFICANCE, Metric
from prmcal.db.queries.reported import REPORTED_TABLES, reported
from prmcal.db.text.readable import missing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NAMES", "Board", "Entry", "Line", "PaperTable", "board", "paper_tables"]

NAMES = {
    "dataset": "Data set",
    "llm": "LLM",
    "prm": "PRM",
    "calibrator": "Calibrator",
    "strategy": "Strategy",
    "target": "C",
    "level": "β",
}
"""Coordinates of a cell with their titles, in the order of columns."""

_TITLES: dict[str, str] = {"calibration": "Calibration", "scaling": "Scaling"}
_MAIN = {
    "calibration": ("brier", "adaptive_ce", "signed_error"),
    "scaling": ("accuracy", "budget_ratio", "pass_at_n"),
}
_MARKS = {"best": "●", "tied": "○", "worse": "▽"}
_MINUS, _DASH = "\N{MINUS SIGN}", "\N{EN DASH}"
_CAPTIONS = {
    "calibration": "How far rewards are from Monte Carlo success rates, on the test questions.",
    "scaling": "What strategies reach with how many samples; with IAS each question's budget follows from its reward.",
}


@dataclass(frozen=True)
class Entry:
    """A number of the table: as it is stored, and as it is shown."""

    value: float | None
    text: str
    interval: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """A cell of the grid: its coordinates as text, one entry for each metric, and what it rests on."""

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
        Coordinates in which its cells differ.
    metrics : tuple of Metric
        Columns. The names of those that are shown at first are `main`.
    lines : tuple of Line
        In the order of the grid.
    """

    name: str
    title: str
    caption: str
    names: tuple[str, ...]
    metrics: tuple[Metric, ...]
    main: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def failed(self) -> list[Line]:
        """The cells that have a reason instead of numbers."""
        return [line for line in self.lines if line.status == "failed"]

    def choices(self, name: str) -> list[str]:
        """The values of a coordinate, in the order of the grid."""
        return list(dict.fromkeys(line.names[name] for line in self.lines if line.names[name]))


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: heads, and rows of text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def board(frame: pd.DataFrame, name: Literal["calibration", "scaling"]) -> Board:
    """Arrange a leaderboard, as :func:`prmcal.db.queries.leaderboard.leaderboard` returns it."""
    metrics = tuple(
        metric
        for metric in METRICS.values()
        if metric.leaderboard == name and metric.name in frame and frame[metric.name].notna().any()
    )
    return Board(
        name=name,
        title=_TITLES[name],
        caption=f"{_CAPTIONS[name]} Values with 95% intervals by bootstrap over questions. What competes is one data "
        f"set, LLM and PRM: {_MARKS['best']} the best, {_MARKS['tied']} not distinguishable from the best, "
        f"{_MARKS['worse']} really worse (paired, p < {SIGNIFICANCE} after Holm's correction). What shares a letter is "
        "not distinguishable. Without a mark: not compared.",
        names=tuple(each for each in NAMES if frame[each].notna().any()),
        metrics=metrics,
        main=_MAIN[name],
        lines=tuple(_line(row, metrics) for row in frame.to_dict("records")),
    )


def paper_tables() -> list[PaperTable]:
    """Return what the paper reports, table by table."""
    numbers = reported()
    return [
        _paper_table(title, numbers[numbers["table"] == label]) for label, title in REPORTED_TABLES.items()
    ]


def _line(row: dict[str, Any], metrics: Sequence[Metric]) -> Line:
    return Line(
        cell_id=row["cell_id"],
        names={name: _name(row[name]) for name in NAMES},
        entries=tuple(_entry(row, metric.name) for metric in metrics),
        questions=_count(row["questions"]),
        rows=_count(row["rows"]),
        status=row["status"],
        reason="" if missing(row["reason"]) else str(row["reason"]),
    )


def _entry(row: dict[str, Any], metric: str) -> Entry:
    value = row[metric]
    if row["status"] != "done" or missing(value):
        return Entry(None, row["status"] if row["status"] != "done" else _DASH)
    ends = (row[f"{metric}_low"], row[f"{metric}_high"])
    standing, letters = row[f"{metric}_standing"], row[f"{metric}_letters"]
    marks = [_MARKS.get(standing, ""), letters if isinstance(letters, str) else ""]
    return Entry(
        value=float(value),
        text=_number(value),
        interval="" if any(map(missing, ends)) else f"[{', '.join(map(_number, ends))}]",
        mark=" ".join(filter(None, marks)),
    )


def _paper_table(title: str, numbers: pd.DataFrame) -> PaperTable:
    used = [name for name in NAMES if name in numbers and numbers[name].notna().any()]
    metrics = list(dict.fromkeys(numbers["metric"]))
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in numbers.to_dict("records"):
        place = tuple(_name(row[name]) for name in used)
        found.setdefault(place, {})[row["metric"]] = _number(row["value"], row["digits"])
    return PaperTable(
        title=title,
        heads=(*(NAMES[name] for name in used), *(METRICS[metric].title for metric in metrics)),
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


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".replace("-", _MINUS)
