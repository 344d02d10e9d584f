"""The table behind all displays of results: columns of text, with numbers to sort by and links to cells.

Thin skins show a board. CSV and JSON have all digits, so they are written from the results themselves.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.metrics import COSTS, Leaderboard, Metrics, cell_number
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.formats import (
    COORDINATE_TITLES,
    LEADERBOARDS,
    MARKS,
    SYMBOLS,
    amount,
    interval,
    leaderboard_legend,
    missing,
    number,
)

if TYPE_CHECKING:
    import pandas as pd

    from prmcal.db.queries.two_cells import CellComparison

_ALIKE = "Those of one question resemble each other, so intervals are over questions."
_INDEPENDENT = ("independent", "Independent", "How many independent prefixes have a mean error as uncertain as these.")
_MOST_DIFFERING = 5
"""The most rows that a note on differences names."""
_SYMBOLS = {standing: f" {SYMBOLS[standing]}" for standing in ("best", "tied", "worse")}
_FROM_ZERO = "†"


@dataclass(frozen=True)
class Column:
    """A column of a table, with one text for each row."""

    title: str
    """May be wrapped at its words."""
    values: tuple[str, ...]
    weight: int = 0
    """Its importance. Narrow tables leave out columns with the largest weights first, and columns with 0 never."""
    key: str = ""
    """Its name in commands and files, if it has one, such as ``brier``."""
    about: str = ""
    """Explains the column, and which values are better."""
    numbers: tuple[float, ...] = ()
    """The numbers behind the values, for sorting; NaN if a value has none. Empty for names."""
    hidden: bool = False
    """True if pages show it only to readers who ask for it."""
    group: str = ""
    """Columns of a group are left out together."""
    text: bool = False
    """True if the column holds free text, which takes the remaining space."""
    whole: bool = False
    """True if its values are never cut."""


def column_of(rows: Sequence[Any], title: str, text: Callable[[Any], str], weight: int = 0) -> Column:
    """Return a column. `text` gives the text of a row."""
    return Column(title, tuple(map(text, rows)), weight)


with Path(__file__).with_name("columns.csv").open(encoding="utf-8", newline="") as _file:
    _DESCRIBED = {(row["board"], row["title"]): (int(row["weight"]), row["about"]) for row in csv.DictReader(_file)}


def described_column(board: str, rows: Sequence[Any], title: str, text: Callable[[Any], str]) -> Column:
    """Return a column of the ranking or of the league. ``columns.csv`` has its weight and its meaning."""
    weight, about = _DESCRIBED[board, title]
    return Column(title, tuple(map(text, rows)), weight, about=about)


@dataclass(frozen=True)
class Board:
    """A table of results."""

    columns: tuple[Column, ...]
    names: int
    """Number of columns, from the left, that contain names. Other columns contain numbers."""
    notes: tuple[str, ...] = ()
    """Lines below the table."""
    title: str = ""
    legend: str = ""
    """The meaning of the column, and how to read its values."""
    cells: tuple[str, ...] = ()
    """The identifier of the cell in each row, to link to; empty if rows are no cells."""

    @property
    def head(self) -> list[str]:
        """The titles of the columns."""
        return [column.title for column in self.columns]

    @property
    def keys(self) -> list[str]:
        """The names of the columns in commands and files."""
        return [column.key for column in self.columns]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The texts of each row."""
        return list(zip(*(column.values for column in self.columns), strict=True))


def leaderboard_board(
    frame: pd.DataFrame,
    leaderboard: Leaderboard,
    descriptions: Metrics,
    metrics: Sequence[str] | None = None,
    marks: Mapping[str, str] = MARKS,
) -> Board:
    """Return a leaderboard with intervals, marks, and the reasons of failed cells.

    `frame` is from :func:`prmcal.db.queries.leaderboard.leaderboard`, and `descriptions` are the metrics of the run,
    for their titles. Only `metrics` are shown, or all of `frame`. The first column has the short numbers of the cells.
    Each value is followed by the mark of its standing.
    """
    text = LEADERBOARDS[leaderboard]
    metric_names = [name for name in frame.columns if f"{name}_low" in frame.columns]
    shown_names = metric_names if metrics is None else list(metrics)
    suffixes = ("", "_low", "_high", "_standing")
    hidden = {f"{name}{suffix}" for name in metric_names if name not in shown_names for suffix in suffixes}
    rows = frame[[name for name in frame if name not in hidden]].to_dict("records")
    names = _name_columns(frame, rows)
    values = [
        Column(
            descriptions.title(name),
            tuple(_value(row, name, marks) for row in rows),
            key=name,
            about=f"{descriptions[name].description} {descriptions[name].direction.capitalize()}".strip(),
            numbers=_numbers(rows, name),
            hidden=name not in text.main_metrics,
        )
        for name in shown_names
    ]
    counts = [
        replace(column_of(frame[key], title, _count), key=key, numbers=_numbers(rows, key), about=about)
        for key, title, about in (("questions", "Questions", ""), ("rows", text.rows, _ALIKE), _INDEPENDENT)
        if key in frame
    ]
    status = Column("Status", tuple(row["status"] for row in rows), key="status")
    failed = frame[frame["status"] == "failed"]["reason"].value_counts()
    return Board(
        (*names, *values, *counts, status),
        len(names),
        (*(f"failed ({count} cells): {reason}" for reason, count in failed.items()), *_differing(frame)),
        f"{text.title} leaderboard",
        leaderboard_legend({standing: mark.strip() for standing, mark in marks.items()}),
        tuple(frame["cell_id"]),
    )


def _differing(frame: pd.DataFrame) -> tuple[str, ...]:
    rows = frame[frame["difference"].notna()]
    listed = rows.head(_MOST_DIFFERING).itertuples()
    cells = [f"{cell_number(row.number)} ({row.difference})" for row in listed]
    more = ["..."] if len(rows) > len(cells) else []
    return (f"differ from another run ({len(rows)} cells): {', '.join(cells + more)}",) if cells else ()


def web_board(
    frame: pd.DataFrame, leaderboard: Leaderboard, descriptions: Metrics, metrics: Sequence[str] | None = None
) -> Board:
    """Return a leaderboard as pages show it, without the coordinates that are the same in all rows.

    A row that failed has its reason as status, and a row that differs from another run has the difference. The legend
    has the values that all rows share.
    """
    board = leaderboard_board(frame, leaderboard, descriptions, metrics, _SYMBOLS)
    reasons = tuple(map(_status, frame[["status", "reason", "difference"]].to_dict("records")))
    coordinates = [column for column in board.columns if column.key in COORDINATE_TITLES]
    alike = {column.key: column for column in coordinates if len(set(column.values)) == 1}
    columns = [
        replace(column, values=reasons) if column.key == "status" else column
        for column in board.columns
        if column.key not in alike and any(column.values) and (column.key != "status" or set(reasons) != {"done"})
    ]
    same = [f"{column.title}: {column.values[0]}. " for column in alike.values()]
    names = sum(column.key in ("number", *COORDINATE_TITLES) for column in columns)
    return replace(board, columns=tuple(columns), names=names, legend="".join(same) + board.legend)


def _status(row: Mapping[str, Any]) -> str:
    reason = "" if missing(row["reason"]) else f": {row['reason']}"
    difference = "" if missing(row["difference"]) else f"; differs: {row['difference']}"
    return f"{row['status']}{reason}{difference}"


def estimate(metric: str, value: float, low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Return a value of a metric with its interval, if its ends are known.

    Costs have four significant digits, other metrics three decimal places.
    """
    ends = None if low is None or high is None or missing(low) else (low, high)
    if metric in ("samples", *COSTS):
        sign = "+" if signed and value > 0 else ""
        return f"{sign}{amount(value)}" + (f" [{amount(ends[0])}, {amount(ends[1])}]" if ends else "")
    return f"{number(value, signed=signed)}{f' {interval(*ends, signed=signed)}' if ends else ''}"


def _name_columns(frame: pd.DataFrame, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the columns that distinguish the cells of a table: a short number, if there is one, and names."""
    columns = [
        Column(
            title,
            tuple(_name(row[key]) for row in rows),
            key=key,
            numbers=_numbers(rows, key) if key in ("target", "level") else (),
        )
        for key, title in COORDINATE_TITLES.items()
        if frame[key].notna().any()
    ]
    if "number" not in frame:
        return columns
    return [Column("#", tuple(cell_number(row["number"]) for row in rows), key="number"), *columns]


def _count(value: Any) -> str:
    return "" if missing(value) else f"{int(value):,}"


def _name(value: Any) -> str:
    return "" if missing(value) else f"{value:g}" if isinstance(value, float) else str(value)


def _numbers(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[float, ...]:
    return tuple(math.nan if missing(row[key]) else float(row[key]) for row in rows)


def _value(row: Mapping[str, Any], metric: str, marks: Mapping[str, str]) -> str:
    if missing(row[metric]):
        return ""
    value = estimate(metric, *(row[name] for name in (metric, f"{metric}_low", f"{metric}_high")))
    standing = row[f"{metric}_standing"]
    return value if missing(standing) else f"{value}{marks.get(standing, ' ')}"


def comparison_board(comparison: CellComparison, title: Callable[[str], str] = str, *, narrow: bool = False) -> Board:
    """Return the values of both cells and their differences, a row for each metric. `title` gives the name of a metric.

    With `narrow`, only the differences have intervals.
    """
    rows = list(comparison.table.itertuples())
    differences = [
        estimate(row.metric, row.difference, row.low, row.high, signed=True) + _FROM_ZERO * row.from_zero
        for row in rows
    ]
    weight = 0 if narrow else 3
    sides = [
        column_of(rows, "A", lambda row: _side(row, "a", narrow), weight),
        column_of(rows, "B", lambda row: _side(row, "b", narrow), weight),
    ]
    columns = (
        column_of(rows, "metric", lambda row: title(row.metric)),
        *(replace(side, group="cells", whole=True) for side in sides),
        Column("B - A", tuple(differences), whole=True),
        column_of(rows, "significant", lambda row: {None: "", True: "yes", False: "no"}[row.real], 4),
        column_of(comparison.p_values, "p", lambda p: "" if math.isnan(p) else f"{p:.2g}", 2),
    )
    return Board(columns, names=1, legend="\n".join(_legend(comparison)))


def _side(row: Any, side: str, narrow: bool) -> str:
    ends = (None, None) if narrow else (getattr(row, f"{side}_low"), getattr(row, f"{side}_high"))
    return estimate(row.metric, getattr(row, side), *ends)


def _legend(comparison: CellComparison) -> list[str]:
    lines = ["Values with 95% intervals over questions. B - A is paired."]
    if comparison.table["from_zero"].any():
        lines.append(f"{_FROM_ZERO}: difference of the distances from 0, the best value.")
    pairs = sorted({count for count in comparison.table["pairs"] if count is not None})
    corrected = ""
    if pairs:
        corrected = f" A leaderboard corrects it over all pairs of cells ({' or '.join(map(str, pairs))})."
    if comparison.table["real"].isna().all() and comparison.questions > 1:
        return [*lines, "Not tested: a strategy that needs the truth, such as oracle IAS, is a limit and no rival."]
    return [*lines, f"significant: p < {SIGNIFICANCE}, as one test of these two cells.{corrected}"]


_OF_GROUPS = [("accuracy", "Accuracy", 0), ("brier_before", "Brier before", 2), ("brier_after", "Brier after", 1)]
_OF_GROUPS += [("error_before", "Signed error before", 4), ("error_after", "Signed error after", 3)]


def groups_board(frame: pd.DataFrame, field: str) -> Board:
    """Return the values of :func:`prmcal.db.queries.groups.by_group` for the questions with each value of a field."""
    rows = frame.to_dict("records")
    values = [
        Column(title, tuple(_of_group(row, name) for row in rows), weight, whole=True)
        for name, title, weight in _OF_GROUPS
    ]
    names = column_of(rows, field, lambda row: row["group"]), column_of(rows, "n", lambda row: str(row["questions"]))
    return Board(
        (*names, *values),
        names=1,
        legend="n: questions. Values with 95% intervals over questions. Accuracy: the share of right solutions. Brier "
        "scores are without the noise of several follow-ups. Before and after: rewards of the PRM and of the "
        "calibrator. Micro: each question counts the same. Macro: each group counts the same.",
    )


def _of_group(row: Mapping[str, Any], name: str) -> str:
    return "" if missing(row[name]) else estimate(name, *(row[f"{name}{end}"] for end in ("", "_low", "_high")))


def questions_board(comparison: CellComparison) -> Board:
    """Return the questions on which two cells differ most."""
    rows = list(comparison.differing.itertuples())
    texts = column_of(rows, "text", lambda row: _name(row.question), 2)
    columns = (
        column_of(rows, "question", lambda row: row.question_id, 3),
        column_of(rows, "level", lambda row: _name(row.question_level), 4),
        column_of(rows, "A", lambda row: number(row.value_a), 1),
        column_of(rows, "B", lambda row: number(row.value_b), 1),
        column_of(rows, "B - A", lambda row: number(row.difference, signed=True)),
        replace(texts, text=True),
    )
    by = "squared error, mean over prefixes" if comparison.a["leaderboard"] == "calibration" else "accuracy"
    return Board(columns, names=1, title=f"Questions with the largest differences ({by})")
