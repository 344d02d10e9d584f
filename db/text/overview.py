"""The words of the overview and of the league: sentences, four tiles, the rankings, and what to read next."""

from functools import partial
from typing import NamedTuple

from prmcal.db.metrics import OTHER_METRICS
from prmcal.db.overview import types
from prmcal.db.statistics.budgets import verdict
from prmcal.db.text.board import Board, Column, described_column
from prmcal.db.text.formats import WORDS, counted, duration, interval, number
from prmcal.db.text.health import misleading, summaries

_LEGENDS: dict[str, str] = WORDS["legends"]
PURPOSE = _LEGENDS["purpose"]
"""A description of prmcal in one sentence."""

SCORE = "corrected Brier score"
"""The metric that ranks calibrators, as it is named in a sentence."""


_NO_GAIN = "Best-of-n with and without IAS was not measured with the best calibrator."
_NO_BARE = "not possible", "No reward of the bare question, from which IAS chooses the number of samples."


class Tile(NamedTuple):
    """One finding: what was measured, the number or the name that answers it, and what this means with its interval."""

    title: str
    figure: str
    detail: str


def measured(found: types.Overview) -> str:
    """Say what was measured, such as "6 calibrators at 18 places: 3 LLMs, 3 PRMs and 2 data sets ..."."""
    calibrators = counted(len(found.ranking), "calibrator")
    kinds = {"llm": "LLM", "prm": "PRM", "dataset": "data set"}
    llms, prms, datasets = (counted(found.cells[kind].nunique(), name) for kind, name in kinds.items())
    places = counted(found.places, "place")
    text = f"{calibrators} at {places}: {llms} and {prms} on {datasets} {extent(found)}"
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
    """Return the findings: what speaks against the data, and four numbers. One that the grid cannot show says why.

    Where the numbers would mislead, the reasons stand alone.
    """
    if misleading(found.health):
        return tuple(Tile(*each) for each in summaries(found.health))
    without_bare = _without_bare(found)
    notes = summaries(each for each in found.health if each.check != "no bare question" or not without_bare)
    best = found.ranking[0] if found.ranking else None
    findings = {
        "Samples saved": _saved(found.saving),
        "Best calibrator": _winner(found, best),
        "Overestimation": _overestimation(found, best),
        "Accuracy of IAS": _NO_BARE if without_bare else _accuracy(found, best),
    }
    return (*(Tile(*each) for each in notes), *(Tile(title, *finding) for title, finding in findings.items()))


def _without_bare(found: types.Overview) -> bool:
    """Return whether no question has a reward of the bare question at any place."""
    done = found.cells[found.cells["status"] == "done"]
    without = [each for each in found.health if each.check == "no bare question" and each.count == each.total]
    return 0 < len(done[["dataset", "llm", "prm"]].drop_duplicates()) <= len(without)


def _overestimation(found: types.Overview, best: types.Standing | None) -> tuple[str, str]:
    base = next((each for each in found.ranking if each.calibrator == found.baseline), None)
    if base is None or best is None or "signed_error" not in found.before:
        return "unknown", "The grid has no uncalibrated rewards to compare with."
    shown = {each.calibrator: value for each, value in ((base, found.before), (best, best.errors))}
    errors = {name: value["signed_error"] for name, value in shown.items()}
    ends = ", ".join(f"{name} {interval(each.low, each.high)}" for name, each in errors.items())
    figure = " → ".join(number(each.value, signed=True) for each in errors.values())
    text = f"mean signed error{', ' if base is best else ': '}{ends}"
    if best.signed is None or found.signed_before is None or best.signed.places == 1:
        return figure, text
    # Signs of places cancel out in their mean.
    both = dict.fromkeys([found.signed_before, best.signed])
    sizes = " → ".join(number(each.size) for each in both)
    worst = f"{number(best.signed.worst, signed=True)} for {best.signed.place}"
    return figure, f"{text}. Mean size at a place: {sizes}; worst with {best.calibrator}: {worst}"


def _winner(found: types.Overview, best: types.Standing | None) -> tuple[str, str]:
    if best is None:
        return "unknown", "No place has two measured calibrators yet."
    places = counted(best.places, "place")
    text = f"lowest Brier score at {best.lowest} of {places}; {tests_text(best.outcomes)}"
    shared = [each.calibrator for each in found.ranking[1:] if each.rank_low == 1]
    if shared:
        text += f". Not clearly better than {', '.join(shared)}"
    return best.calibrator, text


def tests_text(found: types.Outcomes) -> str:
    """Return the numbers of wins, ties and losses in words."""
    return (
        f"paired tests: {counted(found.wins, 'win')}, {counted(found.ties, 'tie')}, "
        f"{counted(found.losses, 'loss', 'losses')}"
    )


def _saved(saving: types.Saving | None) -> tuple[str, str]:
    if saving is None:
        return "unknown", "Not measured: a league of strategies (`league: true` in the grid file) shows it."
    share = saving.share
    said = {"gain": "", "no gain": ": no clear saving", "loss": ": the rule needs more samples"}
    percent, found = f"{number(100 * share.value, 0)}%", verdict(share.low, share.high)
    shown, before = (percent, "") if found == "gain" else ("none", f"{percent} ")
    return shown, (
        f"{before}{interval(100 * share.low, 100 * share.high, 0)} for equal accuracy, by '{saving.entry.name}' "
        f"against the best fixed setting, both chosen on other questions{said[found]}"
    )


def _accuracy(found: types.Overview, best: types.Standing | None) -> tuple[str, str]:
    if best is None or best.gain is None:
        return "unknown", _NO_GAIN
    gain = best.gain
    # Places may have different N.
    budget = " to ".join(f"{most:,}" for most in dict.fromkeys((*gain.budgets[:1], *gain.budgets[-1:])))
    text = (
        f"with {best.calibrator} and {number(gain.samples.value, 1)}{f' of {budget}' if budget else ''} samples a "
        f"question {interval(gain.samples.low, gain.samples.high, 1)} for C = {found.target:g}"
    )
    full = f"best-of-{gain.budgets[0]:,}" if len(gain.budgets) == 1 else "best-of-N"
    for difference, rival in ((gain.to_best_of_n, full), (gain.to_equal_cost, "a fixed n of equal cost")):
        if difference is not None:
            text += f"; {points(difference)} against {rival}: {verdict(difference.low, difference.high)}"
    return f"{number(100 * gain.accuracy.value, 1)}%", text


def ranking_board(found: types.Overview) -> Board:
    """Return the ranking of the calibrators. The first two columns name the rank and the calibrator."""
    column = partial(described_column, "ranking", found.ranking)
    columns = [
        column("Rank", placed),
        column("Calibrator", lambda each: each.calibrator),
        column("Mean rank", lambda row: quantity(row.mean_rank, 2)),
        column("W-T-L", lambda row: str(row.outcomes)),
        column("Brier cut", lambda row: percents(row.cut, 0)),
        *(_error(found, metric, weight) for metric, weight in zip(OTHER_METRICS, (5, 6), strict=False)),
        column("Signed error by place", _sizes),
        column("IAS accuracy", lambda row: percents(row.gain and row.gain.accuracy)),
        column("IAS samples", lambda row: quantity(row.gain and row.gain.samples, 1)),
        column("To equal cost", lambda row: points(row.gain and row.gain.to_equal_cost)),
        column("Fit", lambda row: "" if row.fit_seconds is None else duration(row.fit_seconds)),
        column("Source", lambda row: row.citation),
    ]
    legend = ranking_legend(found)
    shown = tuple(column for column in columns if any(column.values))
    return Board(shown, 2, (legend,), "Ranking of the calibrators", legend)


def _sizes(row: types.Standing) -> str:
    own = row.signed
    return f"{number(own.size)}, {number(own.worst, signed=True)}" if own and own.places > 1 else ""


def _error(found: types.Overview, metric: str, weight: int) -> Column:
    described = found.metrics[metric]
    values = tuple(quantity(row.errors.get(metric)) for row in found.ranking)
    about = f"{described.description} Mean over places; {described.direction}."
    return Column(described.title, values, weight, about=about)


def ranking_legend(found: types.Overview) -> str:
    """Explain the ranking in a few sentences."""
    partly = any(each.places < found.places for each in found.ranking)
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


LEAGUE_PURPOSE = _LEGENDS["league purpose"]
"""The meaning of the league, in one sentence."""

_NAMED = 3


def league_measured(found: types.League) -> str:
    """Say what was measured, such as "12 strategies at 18 places (nano-math with 100 questions)."."""
    entries, places = counted(len(found.rows), "entry", "entries"), counted(found.places, "place")
    return f"{entries} at {places} {extent(found)}"


def league_sentence(found: types.League) -> str:
    """Say who is ahead, by how much over the best fixed setting of equal cost, and with what certainty.

    Nobody is ahead without a test that it wins, or if another may be the best.
    """
    wrong = summaries(misleading(found.health))
    if wrong:
        return " ".join(["No strategy is ahead.", *(f"{text[:1].upper()}{text[1:]}" for _, _, text in wrong)])
    if not found.ranked:
        return "Nothing can be ranked yet: no place has two strategies that were measured."
    first, levels = found.ranked[0], types.levels_of(row.entry for row in found.rows)
    gain = first.over_fixed or first.gain
    rival = "the best fixed setting of equal cost" if first.over_fixed else "a fixed n of equal cost"
    said = {
        "gain": f"over {rival}",
        "no gain": f"against {rival}, which is no clear difference",
        "loss": f"against {rival}, which is better",
    }[verdict(gain.low, gain.high)]
    best = [row for row in found.ranked if row is first or (row.rank and row.rank.rank_low == 1)]
    name, *rivals = (f"{row.entry.name}{levels[row.entry]}" for row in best)
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
