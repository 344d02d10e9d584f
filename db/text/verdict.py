"""What a run says in ten seconds: three sentences, a bar for each calibrator, and one line of caution.

The sentences name their intervals. What needs more words is in :mod:`prmcal.db.text.overview`.
"""

from itertools import groupby

from prmcal.db.overview.types import Overview, Quantity
from prmcal.db.statistics.budgets import verdict
from prmcal.db.text.board import Column
from prmcal.db.text.formats import counted, duration, interval, number
from prmcal.db.text.health import misleading, title
from prmcal.db.text.overview import placed

_EIGHTHS = "▏▎▍▌▋▊▉█"
_BAR = 18
"""The longest bar, in columns."""
_ROWS = 10


def verdict_sentences(ranking: Overview) -> tuple[str, ...]:
    """Say how far the scores are off, what repairs them, and what this saves; or why nothing can be said."""
    wrong = misleading(ranking.health)
    if wrong:
        names = ", ".join(dict.fromkeys(title(check).lower() for check in wrong))
        return (f"These results would mislead: {names}.",)
    if not ranking.ranking:
        return ("No setting has two measured calibrators yet.",)
    return (_error(ranking), _repair(ranking), _saving(ranking))


def _error(ranking: Overview) -> str:
    error = ranking.before.get("signed_error")
    if error is None:
        return "How far the scores are off is not known: the grid has no uncalibrated scores."
    said = {"gain": "too high: mean error", "loss": "too low: mean error", "no gain": "right on average:"}
    size = f"{number(error.value, signed=True)} {interval(error.low, error.high, signed=True)}"
    questions = counted(sum(ranking.questions.values()), "question")
    extent = f"{counted(ranking.places, 'setting')}, {questions}"
    return f"The scores are {said[verdict(error.low, error.high)]} {size} ({extent})."


def _repair(ranking: Overview) -> str:
    leaders = ranking.leaders or ranking.ranking[:1]
    first, cut = leaders[0], leaders[0].cut
    if ranking.baseline in {row.calibrator for row in leaders} or cut is None:
        return "No calibrator is clearly better than the scores as they are."
    others = f"; {counted(len(leaders) - 1, 'other')} may be as good" if leaders[1:] else ""
    return f"Calibration cuts the Brier score by {_percent(cut)} ({first.calibrator}{others})."


def _saving(ranking: Overview) -> str:
    if ranking.saving is None:
        return "Samples saved: not measured (`league: true` in the grid)."
    share, rule = ranking.saving.share, ranking.saving.entry.name
    if verdict(share.low, share.high) == "gain":
        return f"It saves {_percent(share)} of the samples at equal accuracy ({rule})."
    return f"Samples saved at equal accuracy: not shown ({_percent(share)}, {rule})."


def _percent(share: Quantity) -> str:
    return f"{number(100 * share.value, 0)}% {interval(100 * share.low, 100 * share.high, 0)}"


def caution(ranking: Overview) -> str:
    """Return one line of caution; empty if there is none."""
    names = list(dict.fromkeys(title(check).lower() for check in ranking.health))
    running = ["the run is in progress"] if ranking.running else []
    failed = [f"{counted(ranking.counts['failed'], 'cell')} failed"] if ranking.counts["failed"] else []
    said = [*running, *failed, *([] if misleading(ranking.health) else names)]
    return f"Caution: {', '.join(said)}." if said else ""


def bars(ranking: Overview) -> tuple[tuple[Column, ...], int]:
    """Return the calibrators with their ranks, bars and Brier reductions, and how many are left out.

    A bracket joins those that no test tells apart. The uncalibrated scores are always among the rows.
    """
    rows = [row for row in ranking.ranking if row.calibrator != ranking.baseline][:_ROWS]
    rows += [row for row in ranking.ranking if row.calibrator == ranking.baseline]
    rows.sort(key=lambda row: row.rank)
    marks = [
        mark for _, group in groupby(rows, key=lambda row: row.bracket) for mark in _bracket(len(list(group)))
    ]
    ranks, longest = list(map(placed, rows)), max((row.cut.value for row in rows if row.cut), default=0)
    widest = max(map(len, ranks))
    columns = (
        Column("rank", tuple(f"{text:{widest}} {mark}" for text, mark in zip(ranks, marks, strict=True))),
        Column("calibrator", tuple(row.calibrator for row in rows)),
        Column("Brier reduction", tuple(_bar(row.cut, longest) for row in rows), whole=True),
        Column("", tuple(_percent(row.cut) if row.cut else "0" for row in rows), whole=True),
        Column("fit", tuple("" if row.fit_seconds is None else duration(row.fit_seconds) for row in rows), 1),
    )
    return columns, len(ranking.ranking) - len(rows)


def _bracket(rows: int) -> str:
    return " " if rows == 1 else f"┐{'│' * (rows - 2)}┘"


def _bar(cut: Quantity | None, longest: float) -> str:
    eighths = round(8 * _BAR * max(0.0, cut.value) / longest) if cut is not None and longest > 0 else 0
    return _EIGHTHS[-1] * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")
