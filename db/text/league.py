"""The words of the league: one sentence, the ranking of strategies at equal cost, and a legend.

The command line, the dashboard and the site show these.
"""

from __future__ import annotations

from prmcal.db.overview.types import League, LeagueRow, Quantity, levels_of
from prmcal.db.statistics.budgets import verdict
from prmcal.db.text.board import Board, Column
from prmcal.db.text.formats import counted, interval, number

LEAGUE_PURPOSE = (
    "The league compares strategies at equal cost: how accurate each is with the same mean number of samples, over its "
    "whole range of budgets."
)
"""What the league is, in one sentence."""

_NAMED = 3


def league_measured(found: League) -> str:
    """Say what was measured, such as "12 strategies at 18 places (nano-math with 100 questions)."."""
    sets = ", ".join(f"{name} with {counted(value, 'question')}" for name, value in found.questions.items())
    text = f"{counted(len(found.rows), 'entry', 'entries')} at {counted(found.places, 'place')} ({sets})."
    unfinished = [f"{found.counts[name]:,} {name}" for name in ("failed", "pending") if found.counts[name]]
    if unfinished:
        text += f" {counted(found.counts['done'], 'cell')} done, {', '.join(unfinished)}."
    return text


def league_sentence(found: League) -> str:
    """Say who is ahead, by how much over a fixed n of equal cost, and with what certainty."""
    if not found.ranked:
        return "Nothing can be ranked yet: no place has two strategies that were measured."
    first, levels = found.ranked[0], levels_of(row.entry for row in found.rows)
    gain = first.gain
    said = {
        "gain": f"{_points(gain)} over a fixed n of equal cost",
        "no gain": f"{_points(gain)} against a fixed n of equal cost, which is no clear difference",
        "loss": f"{_points(gain)} against a fixed n of equal cost, so that a fixed n is better",
    }[verdict(gain.low, gain.high)]
    text = (
        f"{first.entry.name}{levels[first.entry]} is ahead: {said}, on average over budgets from 1 to "
        f"{' or '.join(f'{most:,}' for most in found.budgets)} samples; paired tests: "
        f"{counted(first.wins, 'win')}, {counted(first.ties, 'tie')}, {counted(first.losses, 'loss', 'losses')}."
    )
    rivals = [
        f"{row.entry.name}{levels[row.entry]}"
        for row in found.ranked[1:]
        if row.rank is not None and row.rank.rank_low == 1
    ]
    if rivals:
        named = ", ".join(rivals[:_NAMED])
        more = f" and {len(rivals) - _NAMED} more" if len(rivals) > _NAMED else ""
        text += f" Not clearly worse: {named}{more}."
    return text


def league_board(found: League) -> Board:
    """Return the ranking of the strategies. The first three columns name the rank, the strategy and the calibrator."""
    rows = found.rows
    budgets = sorted({budget for row in rows for budget in row.accuracies})
    columns = [
        Column(
            "Rank",
            tuple(map(_placed, rows)),
            0,
            about=(
                "Range of plausible ranks by the accuracy over budgets: 95% of resamples of the questions. References "
                "need the truth and have no rank."
            ),
        ),
        Column("Strategy", tuple(row.entry.strategy for row in rows), 0, about="Name in the grid."),
        Column(
            "Calibrator",
            _calibrators(rows),
            0,
            about="The calibrator whose rewards the strategy reads, and the level beta if it was run at several.",
        ),
        Column(
            "Gain",
            tuple(_points_only(row.gain) for row in rows),
            2,
            about=(
                "Accuracy minus that of best-of-n with a fixed n and the same mean samples, averaged over budgets "
                "from 1 to N where every doubling counts the same, in percentage points. Higher is better."
            ),
        ),
        Column(
            "W-T-L",
            tuple(f"{row.wins}-{row.ties}-{row.losses}" if row.rank else "" for row in rows),
            3,
            about=(
                "Wins, ties and losses: paired tests of the accuracy over budgets against the other entries at the "
                "same place (p < 0.05 after Holm's correction)."
            ),
        ),
        *(
            Column(
                f"At {budget}",
                tuple(_percents(row.accuracies[budget]) if budget in row.accuracies else "" for row in rows),
                {4: 3, 16: 4}.get(budget, 6),
                about=(f"Accuracy with {budget} samples of a question on average. Higher is better."),
            )
            for budget in budgets
        ),
        Column(
            "Saving",
            tuple(_percents(row.saving) for row in rows),
            4,
            about=(
                "Share of samples saved at 95% of the accuracy of best-of-N, compared with the smallest fixed n that "
                "reaches it. Below 0 it needs more samples."
            ),
        ),
        Column(
            "Mean rank",
            tuple(_mean_rank(row) for row in rows),
            5,
            about="Mean over places of the rank by the accuracy over budgets. Lower is better.",
        ),
        Column(
            "Order error",
            tuple(number(100 * row.order_error, 2) if row.order_error > 0 else "" for row in rows),
            7,
            about=(
                "The largest standard error of an accuracy, in percentage points, that comes from a limited number of "
                "random orders of the samples. Empty: the results are exact."
            ),
        ),
        Column("Source", tuple(row.citation for row in rows), 8, about="Where the strategy was published."),
    ]
    legend = league_legend(found)
    return Board(
        tuple(column for column in columns if any(column.values)),
        3,
        (league_sentence(found), legend),
        "Ranking of the strategies at equal cost",
        legend,
    )


def league_legend(found: League) -> str:
    """Explain the ranking in a few sentences."""
    exact = all(row.order_error == 0 for row in found.rows)
    text = (
        "Gain: accuracy minus that of a fixed n with the same mean samples, averaged over all budgets, in percentage "
        "points. At n: accuracy with n samples on average. Saving: samples saved at 95% of the accuracy of best-of-N. "
        "Values are means over places with 95% intervals over questions. W-T-L: wins, ties and losses in paired tests. "
        "Thresholds are chosen on calibration questions only."
    )
    return text if exact else f"{text} Sequential rules are averaged over random orders of the samples."


def _calibrators(rows: tuple[LeagueRow, ...]) -> tuple[str, ...]:
    levels = levels_of(row.entry for row in rows)
    return tuple(f"{row.entry.calibrator}{levels[row.entry]}" for row in rows)


def _placed(row: LeagueRow) -> str:
    if row.rank is None:
        return "-"
    low, high = row.rank.rank_low, row.rank.rank_high
    return f"{low}" if low == high else f"{low}-{high}"


def _mean_rank(row: LeagueRow) -> str:
    if row.rank is None:
        return ""
    mean = row.rank.mean_rank
    return f"{number(mean.value, 2)} {interval(mean.low, mean.high, 2)}".rstrip()


def _percents(value: Quantity) -> str:
    return f"{number(100 * value.value, 1)}% {interval(100 * value.low, 100 * value.high, 1)}".rstrip()


def _points_only(value: Quantity) -> str:
    ends = interval(100 * value.low, 100 * value.high, 1, signed=True)
    return f"{number(100 * value.value, 1, signed=True)} {ends}".rstrip()


def _points(value: Quantity) -> str:
    ends = interval(100 * value.low, 100 * value.high, 1, signed=True)
    return f"{number(100 * value.value, 1, signed=True)} points {ends}".rstrip()
