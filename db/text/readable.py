"""Leaderboards as tables of text: values with intervals and marks, in Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prmcal.db.metrics import COSTS, PARTS_OF_COSTS, SCALING, Leaderboard, Metrics, cell_number
from prmcal.db.text.formats import (
    amount,
    escape_latex,
    escape_markdown,
    interval,
    markdown_grid,
    number,
    tabular,
)
from prmcal.db.text.presentation import (
    COORDINATE_TITLES,
    LEADERBOARDS,
    MARKS,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Readable", "estimate", "missing", "readable_costs", "readable_leaderboard"]


@dataclass(frozen=True)
class Readable:
    """A table of text.

    Attributes
    ----------
    head : list of str
        Titles of the columns.
    rows : list of list of str
    names : int
        Number of columns, from the left, that contain names. The others contain numbers.
    notes : tuple of str
        Lines below the table.
    keys : tuple of str
        Names of the columns in commands and files, if they have any, such as ``brier``.
    """

    head: list[str]
    rows: list[list[str]]
    names: int
    notes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def markdown(self) -> str:
        """Return the table in Markdown, with its notes below."""
        grid = markdown_grid(*self._escaped(escape_markdown), left=self.names)
        return "\n\n".join([grid, *map(escape_markdown, self.notes)]) + "\n"

    def latex(self) -> str:
        """Return the table in LaTeX, with its notes as comments above."""
        first = "The preamble needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}."
        comments = [f"% {' '.join(line.split())}" for line in (first, *self.notes)]
        return "\n".join([*comments, tabular(*self._escaped(escape_latex), left=self.names)]) + "\n"

    def _escaped(self, escape: Callable[[str], str]) -> tuple[list[str], list[list[str]]]:
        return [escape(each) for each in self.head], [[escape(each) for each in row] for row in self.rows]


def readable_leaderboard(
    frame: pd.DataFrame,
    leaderboard: Leaderboard,
    described: Metrics,
    metrics: Sequence[str] | None = None,
) -> Readable:
    """Return a leaderboard with intervals, marks, and the reasons of failed cells.

    Parameters
    ----------
    frame : DataFrame
        As :func:`prmcal.db.queries.leaderboard.leaderboard` returns it.
    leaderboard : {"calibration", "scaling"}
        Which leaderboard it is.
    described : Metrics
        The metrics of the run, for their titles.
    metrics : sequence of str, optional
        Metrics to show. Default: all metrics of `frame`.

    Returns
    -------
    Readable
        The first column has the short numbers of the cells. Each value is followed by its mark
        (:data:`prmcal.db.text.presentation.MARKS`) and its letters.
    """
    names = _used_names(frame)
    measured = [name for name in frame.columns if f"{name}_low" in frame.columns]
    shown = measured if metrics is None else metrics
    rows = []
    for row in frame.to_dict("records"):
        values = [_value(row, metric) for metric in shown]
        counts = [_count(row["questions"]), _count(row["rows"])]
        rows.append([*_identity(row, names), *values, *counts, row["status"]])
    failed = frame[frame["status"] == "failed"]["reason"].value_counts()
    titles = [*map(described.title, shown), "Questions", LEADERBOARDS[leaderboard].rows, "Status"]
    return Readable(
        [*_titles(names), *titles],
        rows,
        len(names),
        tuple(f"failed ({count} cells): {reason}" for reason, count in failed.items()),
        (*names, *shown, "questions", "rows", "status"),
    )


def readable_costs(frame: pd.DataFrame) -> Readable:
    """Return the costs of strategies per question and in total, from :func:`prmcal.db.queries.leaderboard.costs`."""
    names = _used_names(frame)
    costs = ("samples", *COSTS, "seconds")
    rows = [
        [
            *_identity(row, names),
            "" if missing(row["accuracy"]) else number(row["accuracy"]),
            *(
                "" if missing(row[name]) else f"{amount(row[name])} / {row[f'{name}_total']:,.0f}"
                for name in costs
            ),
        ]
        for row in frame.to_dict("records")
    ]
    titles = map(Metrics(SCALING).title, ("accuracy", *costs))
    return Readable([*_titles(names), *titles], rows, len(names), keys=(*names, "accuracy", *costs))


def estimate(
    metric: str, value: float, low: float | None, high: float | None, *, signed: bool = False
) -> str:
    """Return a value of a metric with its interval; without one if its ends are missing.

    Costs have four significant digits, other metrics three decimal places.
    """
    ends = None if low is None or high is None or missing(low) else (low, high)
    if metric in ("samples", *COSTS, *PARTS_OF_COSTS):
        sign = "+" if signed and value > 0 else ""
        return f"{sign}{amount(value)}" + (f" [{amount(ends[0])}, {amount(ends[1])}]" if ends else "")
    return f"{number(value, signed=signed)}{f' {interval(*ends, signed=signed)}' if ends else ''}"
    return f"{number(value, signed=signed)}{ends}"


def missing(value: Any) -> bool:
    """Return whether a value of a DataFrame is missing."""
    import pandas as pd

    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _used_names(frame: pd.DataFrame) -> list[str]:
    """Return the columns that tell the cells of a table apart: the short number, if there is one, and coordinates."""
    used = [name for name in COORDINATE_TITLES if frame[name].notna().any()]
    return ["number", *used] if "number" in frame else used


def _titles(names: Sequence[str]) -> list[str]:
    return [COORDINATE_TITLES.get(name, "#") for name in names]


def _identity(row: dict[str, Any], names: Sequence[str]) -> list[str]:
    return [cell_number(row[name]) if name == "number" else _name(row[name]) for name in names]


def _name(value: Any) -> str:
    return "" if missing(value) else f"{value:g}" if isinstance(value, float) else str(value)


def _count(value: Any) -> str:
    return "" if missing(value) else f"{int(value):,}"


def _value(row: dict[str, Any], metric: str) -> str:
    if missing(row[metric]):
        return ""
    value = estimate(metric, *(row[name] for name in (metric, f"{metric}_low", f"{metric}_high")))
    standing, letters = row[f"{metric}_standing"], row[f"{metric}_letters"]
    mark = "" if missing(standing) else MARKS.get(standing, " ")
    return f"{value}{mark}{'' if missing(letters) else f' {letters}'}"
