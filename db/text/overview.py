"""The words of the overview and of the league: sentences, cards, and the rankings."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from prmcal.db.metrics import OTHER_METRICS
from prmcal.db.overview import types
from prmcal.db.statistics.budgets import verdict
from prmcal.db.text.board import Board, Column, described_column
from prmcal.db.text.formats import WORDS, counted, duration, interval, number
from prmcal.db.text.health import misleading, summaries

_LEGENDS: dict[str, str] = WORDS["legends"]


class Tile(NamedTuple):
    """One finding: what was measured, the number or the name that answers it, and what this means with its interval."""

    title: str
    figure: str
    detail: str


def measured(found: types.Overview) -> str:
    """Say what was measured, such as "6 calibrators in 18 settings: 3 LLMs, 3 PRMs and 2 data sets ..."."""
    calibrators = counted(len(found.ranking), "calibrator")
    kinds = {"llm": "LLM", "prm": "PRM", "dataset": "data set"}
    llms, prms, datasets = (counted(found.cells[kind].nunique(), name) for kind, name in kinds.items())
    settings = counted(found.settings, "setting")
    text = f"{calibrators} in {settings}: {llms} and {prms} on {datasets} {extent(found)}"
    if found.running:
        text += " The run is in progress: all numbers are provisional."
    return text


def extent(found: types.Extent) -> str:
    """Say which questions were measured, and which cells are not done."""
    sets = ", ".join(f"{name} with {counted(number, 'question')}" for name, number in found.questions.items())
    unfinished = [f"{found.counts[name]:,} {name}" for name in ("failed", "pending") if found.counts[name]]
    done = f" {counted(found.counts['done'], 'cell')} done, {', '.join(unfinished)}." if unfinished else ""
    return f"({sets}).{done}"


def tiles(found: types.Overview) -> tuple[Tile, ...]:
    """Return what speaks against the data, and then :func:`cards`."""
    return (*(Tile(*each) for each in summaries(found.health)), *cards(found))


def cards(found: types.Overview) -> tuple[Tile, ...]:
    """Return how far scores are off, what calibration repairs, and what it saves; none where they would mislead."""
    if misleading(found.health) or not found.ranking:
        return ()
    return (_error(found), _repair(found), _saving(found))


def _error(found: types.Overview) -> Tile:
    before, after = found.before.get("signed_error"), found.ranking[0].errors.get("signed_error")
    if before is None or after is None:
        return Tile("Too high by", "unknown", "No uncalibrated scores were measured.")
    name, (one, other) = "Too high by", (before, after)
    if before.value < 0:
        name, (one, other) = "Too low by", (_negative(each) for each in (before, after))
    ends = " → ".join(interval(each.low, each.high) for each in (one, other))
    return Tile(name, f"{number(one.value)} → {number(other.value)}", ends)


def _negative(value: types.Quantity) -> types.Quantity:
    return types.Quantity(-value.value, -value.high, -value.low)


def _repair(found: types.Overview) -> Tile:
    if found.repair is None:
        missing = "a calibrator was" if found.before else "uncalibrated scores were"
        return Tile("Repaired by", "unknown", f"Not in all settings {missing} measured.")
    return _share("Repaired by", found.repair, "not shown", "of the Brier score")


def _saving(found: types.Overview) -> Tile:
    if found.saving is None:
        return Tile("Samples saved", "unknown", "Add `league: true` to the grid.")
    return _share("Samples saved", found.saving.share, "none shown", "at equal accuracy")


def _share(name: str, share: types.Quantity, without: str, of: str) -> Tile:
    """Return a share as a figure only if its interval is above 0."""
    ends, percent = interval(100 * share.low, 100 * share.high, 0), f"{number(100 * share.value, 0)}%"
    if verdict(share.low, share.high) == "gain":
        return Tile(name, percent, f"{ends} {of}")
    return Tile(name, without, f"{percent} {ends} {of}")


def tests_text(found: types.Outcomes) -> str:
    """Return the numbers of wins, ties and losses in words."""
    return (
        f"paired tests: {counted(found.wins, 'win')}, {counted(found.ties, 'tie')}, "
        f"{counted(found.losses, 'loss', 'losses')}"
    )


def ranking_board(found: types.Overview) -> Board:
    """Return the ranking of the calibrators. The first two columns name the rank and the calibrator."""
    column = partial(described_column, "ranking", found.ranking)
    columns = [
        column("Rank", placed),
        column("Calibrator", lambda each: each.calibrator),
        column("Mean rank", lambda row: quantity(row.mean_rank, 2)),
        column("W-T-L", lambda row: str(row.outcomes)),
        column("Brier cut", lambda row: percents(row.cut, 0)),
        *(_column(found, metric, weight) for metric, weight in zip(OTHER_METRICS, (5, 6), strict=False)),
        column("IAS accuracy", lambda row: percents(row.gain and row.gain.accuracy)),
        column("IAS samples", lambda row: quantity(row.gain and row.gain.samples, 1)),
        column("To equal cost", lambda row: points(row.gain and row.gain.to_equal_cost)),
        column("Fit", lambda row: "" if row.fit_seconds is None else duration(row.fit_seconds)),
        column("Source", lambda row: row.citation),
    ]
    legend = ranking_legend(found)
    shown = tuple(column for column in columns if any(column.values))
    return Board(shown, 2, (legend,), "Ranking of the calibrators", legend)


def _column(found: types.Overview, metric: str, weight: int) -> Column:
    described = found.metrics[metric]
    values = tuple(quantity(row.errors.get(metric)) for row in found.ranking)
    about = f"{described.description} Mean over settings; {described.direction}."
    return Column(described.title, values, weight, about=about)


def ranking_legend(found: types.Overview) -> str:
    """Explain the ranking in a few sentences."""
    partly = any(each.settings < found.settings for each in found.ranking)
    return f"{_LEGENDS['ranking']} {_LEGENDS['ranking in part']}" if partly else _LEGENDS["ranking"]


def placed(row: types.Rank) -> str:
    """Return the rank, or the range of the plausible ranks."""
    return f"{row.rank_low}" if row.rank_low == row.rank_high else f"{row.rank_low}-{row.rank_high}"


def quantity(
    value: types.Quantity | None, digits: int = 3, *, factor: int = 1, unit: str = "", signed: bool = False
) -> str:
    """Return a value and its interval, both multiplied by a factor; empty for None."""
    if value is None:
        return ""
    ends = interval(factor * value.low, factor * value.high, digits, signed=signed)
    return f"{number(factor * value.value, digits, signed=signed)}{unit} {ends}".rstrip()


def percents(value: types.Quantity | None, digits: int = 1) -> str:
    """Return a share in percent."""
    return quantity(value, digits, factor=100, unit="%")


def points(value: types.Quantity | None, unit: str = " points") -> str:
    """Return a difference of shares in percentage points."""
    return quantity(value, 1, factor=100, unit=unit, signed=True)


_NAMED = 3


def league_measured(found: types.League) -> str:
    """Say what was measured, such as "12 strategies in 18 settings (nano-math with 100 questions)."."""
    entries, settings = counted(len(found.rows), "entry", "entries"), counted(found.settings, "setting")
    return f"{entries} in {settings} {extent(found)}"


def league_sentence(found: types.League) -> str:
    """Say who is ahead and who is behind, by their plausible ranks. Nobody is ahead if another may be the best."""
    wrong = summaries(misleading(found.health))
    if wrong:
        return " ".join(["No strategy is ahead.", *(f"{text[:1].upper()}{text[1:]}" for _, _, text in wrong)])
    if not found.ranked:
        return "Nothing can be ranked yet: no setting has two strategies that were measured."
    levels = types.levels_of(row.entry for row in found.rows)

    def names(rows: Sequence[types.LeagueRow]) -> str:
        named = [f"{row.entry.name}{levels[row.entry]}" for row in rows[:_NAMED]]
        return ", ".join(named) + (f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else "")

    leaders = [row for row in found.ranked if row.rank and row.rank.rank_low == 1]
    behind = [row for row in found.ranked if row not in leaders]
    first = leaders[0]
    gain = first.over_fixed or first.gain
    rival = "the best fixed n of equal cost" if first.over_fixed else "a fixed n of equal cost"
    clear = "" if verdict(gain.low, gain.high) == "gain" else ", which is no clear difference"
    if len(leaders) == 1:
        lead = f"{names(leaders)} is ahead: {points(gain)} against {rival}{clear}."
    else:
        lead = f"No strategy is clearly ahead: {len(leaders)} of {len(found.ranked)} may be the best."
    return f"{lead} Behind: {names(behind)}." if behind else lead


def league_board(found: types.League) -> Board:
    """Return the ranking of the strategies. The first three columns name the rank, the strategy and the calibrator."""
    column = partial(described_column, "league", found.rows)
    budgets = sorted({budget for row in found.rows for budget in row.accuracies})
    levels = types.levels_of(row.entry for row in found.rows)
    columns = [
        column("Rank", lambda row: placed(row.rank) if row.rank else "-"),
        column("Strategy", lambda row: row.entry.strategy),
        column("Calibrator", lambda row: f"{row.entry.calibrator}{levels[row.entry]}"),
        column("Gain", lambda row: points(row.gain, "")),
        column("W-T-L", lambda row: str(row.outcomes) if row.rank else ""),
        *(_at_budget(found, budget) for budget in budgets),
        column("Over fixed", lambda row: points(row.over_fixed, "") if row.over_fixed else ""),
        column("Mean rank", lambda row: quantity(row.rank and row.rank.mean_rank, 2)),
        column("Order error", lambda row: number(100 * row.order_error, 2) if row.order_error > 0 else ""),
        column("Source", lambda row: row.citation),
    ]
    legend, shown = league_legend(found), tuple(column for column in columns if any(column.values))
    notes = league_sentence(found), legend
    return Board(shown, 3, notes, "Ranking of the strategies at equal cost", legend)


def _at_budget(found: types.League, budget: int) -> Column:
    values = tuple(percents(row.accuracies.get(budget)) for row in found.rows)
    about = f"Accuracy with {budget} samples of a question on average. Higher is better."
    return Column(f"At {budget}", values, {4: 3, 16: 4}.get(budget, 6), about=about)


def league_legend(found: types.League) -> str:
    """Explain the ranking in a few sentences."""
    exact = all(row.order_error == 0 for row in found.rows)
    return _LEGENDS["league"] if exact else f"{_LEGENDS['league']} {_LEGENDS['league orders']}"
