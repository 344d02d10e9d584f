"""The words of the league: one sentence, the ranking of strategies at equal cost, and a legend."""

from functools import partial

from prmcal.db.overview.types import League, levels_of
from prmcal.db.statistics.budgets import verdict
from prmcal.db.text.board import Board, Column, described_column
from prmcal.db.text.formats import WORDS, counted, number
from prmcal.db.text.health import misleading, summaries
from prmcal.db.text.overview import extent, percents, placed, points, quantity, tests_text

LEAGUE_PURPOSE: str = WORDS["legends"]["league purpose"]
"""The meaning of the league, in one sentence."""

_NAMED = 3


def league_measured(found: League) -> str:
    """Say what was measured, such as "12 strategies at 18 places (nano-math with 100 questions)."."""
    entries, places = counted(len(found.rows), "entry", "entries"), counted(found.places, "place")
    return f"{entries} at {places} {extent(found)}"


def league_sentence(found: League) -> str:
    """Say who is ahead, by how much over the best fixed setting of equal cost, and with what certainty.

    Nobody is ahead without a test that it wins, or if another may be the best.
    """
    wrong = summaries(misleading(found.health))
    if wrong:
        return " ".join(["No strategy is ahead.", *(f"{text[:1].upper()}{text[1:]}" for _, _, text in wrong)])
    if not found.ranked:
        return "Nothing can be ranked yet: no place has two strategies that were measured."
    first, levels = found.ranked[0], levels_of(row.entry for row in found.rows)
    gain = first.over_fixed or first.gain
    rival = "the best fixed setting of equal cost" if first.over_fixed else "a fixed n of equal cost"
    said = {
        "gain": f"over {rival}",
        "no gain": f"against {rival}, which is no clear difference",
        "loss": f"against {rival}, which is better",
    }[verdict(gain.low, gain.high)]
    name, *rivals = (
        f"{row.entry.name}{levels[row.entry]}"
        for row in found.ranked
        if row is first or (row.rank is not None and row.rank.rank_low == 1)
    )
    more = f" and {len(rivals) - _NAMED} more" if len(rivals) > _NAMED else ""
    lead = (
        f"No strategy is clearly ahead. The best may be {', '.join([name, *rivals[:_NAMED]])}{more}. {name} has"
        if rivals or not first.outcomes.wins
        else f"{name} is ahead:"
    )
    return (
        f"{lead} {points(gain)} {said}, on average over budgets from 1 to "
        f"{' or '.join(f'{most:,}' for most in found.budgets)} samples; {tests_text(first.outcomes)}."
    )


def league_board(found: League) -> Board:
    """Return the ranking of the strategies. The first three columns name the rank, the strategy and the calibrator."""
    column = partial(described_column, "league", found.rows)
    budgets = sorted({budget for row in found.rows for budget in row.accuracies})
    levels = levels_of(row.entry for row in found.rows)
    columns = [
        column("Rank", lambda row: placed(row.rank) if row.rank else "-"),
        column("Strategy", lambda row: row.entry.strategy),
        column("Calibrator", lambda row: f"{row.entry.calibrator}{levels[row.entry]}"),
        column("Gain", lambda row: points(row.gain, "")),
        column("W-T-L", lambda row: str(row.outcomes) if row.rank else ""),
        *(_accuracy(found, budget) for budget in budgets),
        column("Over fixed", lambda row: points(row.over_fixed, "") if row.over_fixed else ""),
        column(
            "Of the choice", lambda row: points(row.over_fixed_at_most, "") if row.over_fixed_at_most else ""
        ),
        column("Mean rank", lambda row: quantity(row.rank and row.rank.mean_rank, 2)),
        column("Order error", lambda row: number(100 * row.order_error, 2) if row.order_error > 0 else ""),
        column("Source", lambda row: row.citation),
    ]
    legend = league_legend(found)
    return Board(
        tuple(column for column in columns if any(column.values)),
        3,
        (league_sentence(found), legend),
        "Ranking of the strategies at equal cost",
        legend,
    )


def _accuracy(found: League, budget: int) -> Column:
    return Column(
        f"At {budget}",
        tuple(percents(row.accuracies.get(budget)) for row in found.rows),
        {4: 3, 16: 4}.get(budget, 6),
        about=f"Accuracy with {budget} samples of a question on average. Higher is better.",
    )


def league_legend(found: League) -> str:
    """Explain the ranking in a few sentences."""
    exact = all(row.order_error == 0 for row in found.rows)
    legends: dict[str, str] = WORDS["legends"]
    return legends["league"] if exact else f"{legends['league']} {legends['league orders']}"
