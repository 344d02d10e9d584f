"""The words of the overview and of the league: sentences, cards, and the rankings."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from prmcal.db.metrics import OTHER_METRICS
from prmcal.db.overview import types
from prmcal.db.statistics.budgets import verdict
from prmcal.db.statistics.intervals import Estimate
from prmcal.db.text.board import Board, Column, described_column
from prmcal.db.text.formats import WORDS, counted, duration, interval, number
from prmcal.db.text.health import misleading, summaries

_LEGENDS: dict[str, str] = WORDS["legends"]
_NAMED = 3


class Tile(NamedTuple):
    """One finding: its title, the number or the name that answers it, and its meaning with the interval."""

    title: str
    figure: str
    detail: str


def measured(overview: types.Overview) -> str:
    """Say what was measured, such as "6 calibrators in 18 settings: 3 LLMs, 3 PRMs and 2 data sets ..."."""
    calibrators = counted(len(overview.ranking), "calibrator")
    kinds = {"llm": "LLM", "prm": "PRM", "dataset": "data set"}
    llms, prms, datasets = (counted(overview.cells[kind].nunique(), name) for kind, name in kinds.items())
    settings = counted(overview.settings, "setting")
    text = f"{calibrators} in {settings}: {llms} and {prms} on {datasets} {extent(overview)}"
    if overview.running:
        text += " The run is in progress: all numbers are provisional."
    return text


def extent(ranking: types.Extent) -> str:
    """Say which questions were measured, and which cells are not done."""
    sets = ", ".join(f"{name} with {counted(number, 'question')}" for name, number in ranking.questions.items())
    unfinished = [f"{ranking.counts[name]:,} {name}" for name in ("failed", "pending") if ranking.counts[name]]
    done = f" {counted(ranking.counts['done'], 'cell')} done, {', '.join(unfinished)}." if unfinished else ""
    return f"({sets}).{done}"


def cards(overview: types.Overview) -> tuple[Tile, ...]:
    """Return the error of the scores, the repair by calibration and the samples saved; none if they would mislead."""
    if misleading(overview.health) or not overview.ranking:
        return ()
    return (_error(overview), _repair(overview), _saving(overview))


def _error(overview: types.Overview) -> Tile:
    """Return the error before calibration. A calibrator's own error would flatter it: the same questions chose it."""
    error = overview.before.get("signed_error")
    if error is None:
        return Tile("Too high by", "unknown", "No uncalibrated scores were measured.")
    name, low, high = "Too high by", error.low, error.high
    if error.value < 0:
        name, low, high = "Too low by", -high, -low
    return Tile(name, number(abs(error.value)), f"{interval(low, high)} before calibration")


def _repair(overview: types.Overview) -> Tile:
    if overview.repair is None:
        missing = "No calibrator was" if overview.before else "Uncalibrated scores were not"
        return Tile("Repaired by", "unknown", f"{missing} measured in all settings.")
    return _share("Repaired by", overview.repair, "of the Brier score")


def _saving(overview: types.Overview) -> Tile:
    if overview.saving is None:
        return Tile("Samples saved", "unknown", "Add `league: true` to the grid.")
    return _share("Samples saved", overview.saving.share, "at equal accuracy")


def _share(name: str, share: Estimate, of: str) -> Tile:
    """Return a share as a figure only if its interval is above 0."""
    ends, percent = interval(100 * share.low, 100 * share.high, 0), f"{number(100 * share.value, 0)}%"
    outcome = verdict(share.low, share.high)
    if outcome == "gain":
        return Tile(name, percent, f"{ends} {of}")
    return Tile(name, {"loss": "none", "no gain": "not clear"}[outcome], f"{percent} {ends} {of}")


def tests_text(outcomes: types.Outcomes) -> str:
    """Return the numbers of wins, ties and losses in words."""
    return (
        f"paired tests: {counted(outcomes.wins, 'win')}, {counted(outcomes.ties, 'tie')}, "
        f"{counted(outcomes.losses, 'loss', 'losses')}"
    )


def ranking_board(overview: types.Overview) -> Board:
    """Return the ranking of the calibrators. The first two columns name the rank and the calibrator."""
    column = partial(described_column, "ranking", overview.ranking)
    columns = [
        column("Rank", rank_text),
        column("Calibrator", lambda row: row.calibrator),
        column("Mean rank", lambda row: quantity(row.mean_rank, 2)),
        column("W-T-L", lambda row: str(row.outcomes)),
        column("Brier reduction", lambda row: percents(row.brier_reduction, 0)),
        *(_column(overview, metric, weight) for metric, weight in zip(OTHER_METRICS, (5, 6), strict=False)),
        column("IAS accuracy", lambda row: percents(row.gain and row.gain.accuracy)),
        column("IAS samples", lambda row: quantity(row.gain and row.gain.samples, 1)),
        column("To equal cost", lambda row: points(row.gain and row.gain.to_equal_cost)),
        column("Fit", lambda row: "" if row.fit_seconds is None else duration(row.fit_seconds)),
        column("Source", lambda row: row.citation),
    ]
    legend = ranking_legend(overview)
    filled = tuple(column for column in columns if any(column.values))
    return Board(filled, 2, (legend,), "Ranking of the calibrators", legend)


def _column(overview: types.Overview, metric: str, weight: int) -> Column:
    description = overview.metrics[metric]
    values = tuple(quantity(row.errors.get(metric)) for row in overview.ranking)
    about = f"{description.description} Mean over settings; {description.direction}."
    return Column(description.title, values, weight, about=about)


def ranking_legend(overview: types.Overview) -> str:
    """Explain the ranking in a few sentences."""
    partly = any(row.settings < overview.settings for row in overview.ranking)
    return f"{_LEGENDS['ranking']} {_LEGENDS['ranking in part']}" if partly else _LEGENDS["ranking"]


def rank_text(row: types.Rank) -> str:
    """Return the rank, or the range of the plausible ranks."""
    return f"{row.rank_low}" if row.rank_low == row.rank_high else f"{row.rank_low}-{row.rank_high}"


def quantity(value: Estimate | None, digits: int = 3, *, factor: int = 1, unit: str = "", signed: bool = False) -> str:
    """Return a value and its interval, both multiplied by a factor; empty for None."""
    if value is None:
        return ""
    ends = interval(factor * value.low, factor * value.high, digits, signed=signed)
    return f"{number(factor * value.value, digits, signed=signed)}{unit} {ends}".rstrip()


def percents(value: Estimate | None, digits: int = 1) -> str:
    """Return a share in percent."""
    return quantity(value, digits, factor=100, unit="%")


def points(value: Estimate | None, unit: str = " points") -> str:
    """Return a difference of shares in percentage points."""
    return quantity(value, 1, factor=100, unit=unit, signed=True)


def league_measured(league: types.League) -> str:
    """Say what was measured, such as "12 strategies in 18 settings (nano-math with 100 questions)."."""
    entries, settings = counted(len(league.rows), "entry", "entries"), counted(league.settings, "setting")
    return f"{entries} in {settings} {extent(league)}"


def league_sentence(league: types.League) -> str:
    """Say who is ahead and who is behind, by their plausible ranks. Nobody is ahead if another may be the best."""
    wrong = summaries(misleading(league.health))
    if wrong:
        return " ".join(["No strategy is ahead.", *(f"{text[:1].upper()}{text[1:]}" for _, _, text in wrong)])
    if not league.ranked:
        return "Nothing can be ranked yet: no setting has two strategies that were measured."
    levels = types.levels_of(row.entry for row in league.rows)

    def names(rows: Sequence[types.LeagueRow]) -> str:
        listed = [f"{row.entry.name}{levels[row.entry]}" for row in rows[:_NAMED]]
        return ", ".join(listed) + (f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else "")

    leaders = [row for row in league.ranked if row.rank and row.rank.rank_low == 1]
    behind = [row for row in league.ranked if row not in leaders]
    leader = leaders[0]
    gain = leader.over_fixed or leader.gain
    rival = "the best fixed n of equal cost" if leader.over_fixed else "a fixed n of equal cost"
    clear = "" if verdict(gain.low, gain.high) == "gain" else ", which is no clear difference"
    if len(leaders) == 1:
        lead = f"{names(leaders)} is ahead: {points(gain)} against {rival}{clear}."
    else:
        lead = f"No strategy is clearly ahead: {len(leaders)} of {len(league.ranked)} may be the best."
    return f"{lead} Behind: {names(behind)}." if behind else lead


def league_board(league: types.League) -> Board:
    """Return the ranking of the strategies. The first three columns name the rank, the strategy and the calibrator."""
    column = partial(described_column, "league", league.rows)
    budgets = sorted({budget for row in league.rows for budget in row.accuracies})
    levels = types.levels_of(row.entry for row in league.rows)
    columns = [
        column("Rank", lambda row: rank_text(row.rank) if row.rank else "-"),
        column("Strategy", lambda row: row.entry.strategy),
        column("Calibrator", lambda row: f"{row.entry.calibrator}{levels[row.entry]}"),
        column("Gain", lambda row: points(row.gain, "")),
        column("W-T-L", lambda row: str(row.outcomes) if row.rank else ""),
        *(_at_budget(league, budget) for budget in budgets),
        column("Over fixed", lambda row: points(row.over_fixed, "") if row.over_fixed else ""),
        column("Mean rank", lambda row: quantity(row.rank and row.rank.mean_rank, 2)),
        column("Order error", lambda row: number(100 * row.order_error, 2) if row.order_error > 0 else ""),
        column("Source", lambda row: row.citation),
    ]
    exact = all(row.order_error == 0 for row in league.rows)
    legend = _LEGENDS["league"] if exact else f"{_LEGENDS['league']} {_LEGENDS['league orders']}"
    filled = tuple(column for column in columns if any(column.values))
    return Board(filled, 3, (league_sentence(league), legend), "Ranking of the strategies at equal cost", legend)


def _at_budget(league: types.League, budget: int) -> Column:
    values = tuple(percents(row.accuracies.get(budget)) for row in league.rows)
    about = f"Accuracy with {budget} samples of a question on average. Higher is better."
    return Column(f"At {budget}", values, {4: 3, 16: 4}.get(budget, 6), about=about)
