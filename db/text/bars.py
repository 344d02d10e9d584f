"""The ranking of the calibrators as bars of text: the Brier reduction of each, with brackets of ties."""

from itertools import groupby

from prmcal.db.overview.types import Overview
from prmcal.db.statistics.intervals import Estimate
from prmcal.db.text.board import Column
from prmcal.db.text.formats import duration
from prmcal.db.text.overview import percents, rank_text

_EIGHTHS = "▏▎▍▌▋▊▉█"
_LONGEST = 18
"""The longest bar, in columns."""
_ROWS = 10


def bars(overview: Overview) -> tuple[Column, ...]:
    """Return the columns of the first calibrators, and of the uncalibrated scores at any rank.

    A bracket joins calibrators that no test distinguishes.
    """
    rows = [row for row in overview.ranking if row.rank <= _ROWS or row.calibrator == overview.baseline]
    ranks = list(map(rank_text, rows))
    largest = max((row.brier_reduction.value for row in rows if row.brier_reduction), default=0)
    reductions = tuple("0" if row.calibrator == overview.baseline else percents(row.brier_reduction, 0) for row in rows)
    widest = max(map(len, ranks))
    marks = [mark for _, tied in groupby(rows, key=lambda row: row.bracket) for mark in _bracket(len(list(tied)))]
    return (
        Column("rank", tuple(f"{text:{widest}} {mark}" for text, mark in zip(ranks, marks, strict=True))),
        Column("calibrator", tuple(row.calibrator for row in rows)),
        Column("Brier reduction", tuple(_bar(row.brier_reduction, largest) for row in rows), whole=True),
        Column("", reductions, whole=True),
        Column("fit", tuple("" if row.fit_seconds is None else duration(row.fit_seconds) for row in rows), 1),
    )


def _bracket(rows: int) -> str:
    return " " if rows == 1 else f"┐{'│' * (rows - 2)}┘"


def _bar(reduction: Estimate | None, largest: float) -> str:
    eighths = round(8 * _LONGEST * max(0.0, reduction.value) / largest) if reduction is not None and largest > 0 else 0
    return _EIGHTHS[-1] * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")
