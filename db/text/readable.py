"""Leaderboards for readers: values with intervals and marks as text, in Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prmcal.db.queries.leaderboard import COORDINATES
from prmcal.db.text.formats import escape_latex, escape_markdown, markdown_grid, tabular

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Readable", "missing", "readable_costs", "readable_leaderboard"]

_STANDING = {"best": "*", "tied": "=", "worse": " "}
_NAMES = ("dataset", "llm", "prm", "calibrator", "strategy", "target", "level")
_TITLES = {"target": "C", "level": "beta"}
_COSTS = ("samples", "generated_tokens", "prefill_tokens", "prm_tokens", "seconds")

assert set(_NAMES) == set(COORDINATES)


@dataclass(frozen=True)
class Readable:
    """A table as text.

    Attributes
    ----------
    head : list of str
    rows : list of list of str
    names : int
        How many of the columns, from the left, hold names; the others hold numbers.
    notes : tuple of str
        Lines below it.
    """

    head: list[str]
    rows: list[list[str]]
    names: int
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The table in Markdown, its notes below."""
        grid = markdown_grid(*self._escaped(escape_markdown), left=self.names)
        return "\n\n".join([grid, *map(escape_markdown, self.notes)]) + "\n"

    def latex(self) -> str:
        """The table in LaTeX, its notes as comments above."""
        first = "The preamble needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}."
        comments = [f"% {' '.join(line.split())}" for line in (first, *self.notes)]
        return "\n".join([*comments, tabular(*self._escaped(escape_latex), left=self.names)]) + "\n"

    def _escaped(self, escape: Any) -> tuple[list[str], list[list[str]]]:
        return [escape(each) for each in self.head], [[escape(each) for each in row] for row in self.rows]


def readable_leaderboard(frame: pd.DataFrame, metrics: Sequence[str] | None = None) -> Readable:
    """A leaderboard with its intervals, marks and reasons.

    Parameters
    ----------
    frame : DataFrame
        As :func:`prmcal.db.queries.leaderboard.leaderboard` returns it.
    metrics : sequence of str, optional
        Columns to show; otherwise all metrics that it has.

    Returns
    -------
    Readable
        Behind a value stands ``*`` if it is the best of its group, ``=`` if it ties with it, then its letters.
    """
    names = _names(frame)
    known = [name for name in frame.columns if f"{name}_low" in frame.columns]
    shown = [metric for metric in (known if metrics is None else metrics) if metric in known]
    rows = []
    for row in frame.to_dict("records"):
        counts = "" if missing(row["questions"]) else f"{row['rows']:g}/{row['questions']:g}"
        values = [_value(row, metric) for metric in shown]
        rows.append([*(_name(row[name]) for name in names), *values, counts, row["status"]])
    failed = frame[frame["status"] == "failed"]["reason"].value_counts()
    return Readable(
        [*(_TITLES.get(name, name) for name in names), *shown, "rows/questions", "status"],
        rows,
        len(names),
        tuple(f"failed ({count} cells): {reason}" for reason, count in failed.items()),
    )


def readable_costs(frame: pd.DataFrame) -> Readable:
    """What strategies cost, a question and in total; `frame` as :func:`prmcal.db.queries.costs.costs` returns it."""
    names = _names(frame)
    rows = [
        [
            *(_name(row[name]) for name in names),
            "" if missing(row["accuracy"]) else f"{row['accuracy']:.3f}",
            *(
                "" if missing(row[name]) else f"{row[name]:,.4g} / {row[f'{name}_total']:,.0f}"
                for name in _COSTS
            ),
        ]
        for row in frame.to_dict("records")
    ]
    return Readable([*(_TITLES.get(name, name) for name in names), "accuracy", *_COSTS], rows, len(names))


def missing(value: Any) -> bool:
    """Whether a value of a DataFrame is not there."""
    import pandas as pd

    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _names(frame: pd.DataFrame) -> list[str]:
    return [name for name in _NAMES if frame[name].notna().any()]


def _name(value: Any) -> str:
    return "" if missing(value) else f"{value:g}" if isinstance(value, float) else str(value)


def _value(row: dict[str, Any], metric: str) -> str:
    if missing(row[metric]):
        return ""
    interval = (
        "" if missing(row[f"{metric}_low"]) else f" [{row[f'{metric}_low']:.3f}, {row[f'{metric}_high']:.3f}]"
    )
    standing, letters = row[f"{metric}_standing"], row[f"{metric}_letters"]
    mark = "" if missing(standing) else _STANDING[standing]
    return f"{row[metric]:.3f}{interval}{mark}{'' if missing(letters) else f' {letters}'}"
