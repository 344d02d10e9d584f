"""The words of the overview: one sentence, four tiles, the ranking, and what to read next.

The command line, the dashboard, the site and the report all show these.
"""

from __future__ import annotations

from dataclasses import dataclass

from prmcal.db.metrics import MAIN_METRICS, RANKING_METRIC
from prmcal.db.overview.types import Gain, Overview, Quantity, Standing
from prmcal.db.statistics.budgets import verdict
from prmcal.db.text.board import Board, Column
from prmcal.db.text.formats import counted, duration, interval, number

PURPOSE = (
    "prmcal measures how far the scores of process reward models lie from the true chance of a right answer, corrects "
    "them with calibrators, and shows how many samples this saves."
)
"""What prmcal is, in one sentence."""

SCORE = "corrected Brier score"
"""The metric that ranks calibrators, as it is named in a sentence."""


@dataclass(frozen=True)
class Tile:
    """One finding.

    Attributes
    ----------
    title : str
        What was measured.
    figure : str
        The number or the name that answers it.
    detail : str
        What the figure means, with its interval.
    """

    title: str
    figure: str
    detail: str


def measured(found: Overview) -> str:
    """Say what was measured, such as "6 calibrators at 18 places: 3 LLMs, 3 PRMs and 2 data sets ...".

    Replicates on a merged leaderboard are places of their own.
    """
    sets = ", ".join(f"{name} with {counted(number, 'question')}" for name, number in found.questions.items())
    calibrators = counted(len(found.ranking), "calibrator")
    llms, prms = counted(len(found.llms), "LLM"), counted(len(found.prms), "PRM")
    datasets = counted(len(found.datasets), "data set")
    text = f"{calibrators} at {counted(found.places, 'place')}: {llms} and {prms} on {datasets} ({sets})."
    unfinished = [f"{found.counts[name]:,} {name}" for name in ("failed", "pending") if found.counts[name]]
    if unfinished:
        text += f" {counted(found.counts['done'], 'cell')} done, {', '.join(unfinished)}."
    if found.outdated:
        text += f" Outdated, with versions behind them that have changed since: {counted(found.outdated, 'cell')}."
    if found.running:
        text += " The run is in progress: all numbers are provisional."
    return text


def tiles(found: Overview) -> tuple[Tile, ...]:
    """Return the four findings. A finding that the grid cannot show says why."""
    best = found.ranking[0] if found.ranking else None
    base = found.standing(found.baseline)
    return (
        _overestimation(found, base, best),
        _winner(found, best),
        _saved(found, best),
        _accuracy(found, best),
    )


def _overestimation(found: Overview, base: Standing | None, best: Standing | None) -> Tile:
    title = "Overestimation"
    if base is None or best is None or "signed_error" not in found.before:
        return Tile(title, "unknown", "The grid has no uncalibrated rewards to compare with.")
    before, after = found.before["signed_error"], best.errors["signed_error"]
    if base is best:
        return Tile(
            title, number(before.value, signed=True), f"mean signed error, {base.calibrator} {_ends(before)}"
        )
    return Tile(
        title,
        f"{number(before.value, signed=True)} → {number(after.value, signed=True)}",
        f"mean signed error: {base.calibrator} {_ends(before)}, {best.calibrator} {_ends(after)}",
    )


def _winner(found: Overview, best: Standing | None) -> Tile:
    title = "Best calibrator"
    if best is None:
        return Tile(title, "unknown", "No place has two measured calibrators yet.")
    shared = [each.calibrator for each in found.ranking[1:] if each.rank_low == 1]
    text = (
        f"lowest Brier score at {best.lowest} of {counted(best.places, 'place')}; paired tests: "
        f"{counted(best.wins, 'win')}, {counted(best.ties, 'tie')}, {counted(best.losses, 'loss', 'losses')}"
    )
    if shared:
        text += f". Not clearly better than {', '.join(shared)}"
    return Tile(title, named(best), text)


def _saved(found: Overview, best: Standing | None) -> Tile:
    title, gain = "Samples saved", best.gain if best else None
    if best is None or gain is None or gain.share is None:
        return Tile(
            title, "unknown", _no_gain(found, best) or "The grid has no best-of-n with and without IAS."
        )
    saved = Quantity(1 - gain.share.value, 1 - gain.share.high, 1 - gain.share.low)
    return Tile(
        title,
        _percent(saved.value),
        f"IAS with {best.calibrator} draws {number(gain.samples.value, 1)} of {_budget(gain)} samples a question "
        f"{interval(gain.samples.low, gain.samples.high, 1)} for C = {found.target:g}"
        f"{'. The percentage is a mean over places' if len(gain.budgets) > 1 else ''}",
    )


def _budget(gain: Gain) -> str:
    """Return N of best-of-N, such as "32", or "16 to 32" if places have different ones."""
    return " to ".join(f"{most:,}" for most in dict.fromkeys((gain.budgets[0], gain.budgets[-1])))


def _no_gain(found: Overview, best: Standing | None) -> str:
    """Say that only other calibrators have gains; empty if none has."""
    has_any = any(each.gain is not None for each in found.ranking)
    return f"IAS with {named(best)} was not measured here." if best and not best.gain and has_any else ""


def _accuracy(found: Overview, best: Standing | None) -> Tile:
    title, gain = "Accuracy of IAS", best.gain if best else None
    if gain is None:
        return Tile(title, "unknown", _no_gain(found, best) or "The grid has no best-of-n + IAS.")
    parts = [
        f"{_points(difference)} against {what}: {verdict(difference.low, difference.high)}"
        for difference, what in (
            (gain.to_best_of_n, f"best-of-{gain.budgets[0]:,}" if len(gain.budgets) == 1 else "best-of-N"),
            (gain.to_equal_cost, "a fixed n of equal cost"),
        )
        if difference is not None
    ]
    return Tile(
        title, _percent(gain.accuracy.value, 1), "; ".join(parts) or "There is nothing to compare it with."
    )


def ranking_board(found: Overview) -> Board:
    """Return the ranking of the calibrators. The first two columns name the rank and the calibrator."""
    rows = found.ranking
    gains = [each.gain for each in rows]
    columns = [
        Column(
            "Rank",
            tuple(map(placed, rows)),
            0,
            about="Range of plausible ranks: 95% of resamples of the questions.",
        ),
        Column("Calibrator", tuple(map(named, rows)), 0, about="Name in the grid."),
        Column(
            "Mean rank",
            tuple(_estimate(each.mean_rank, 2) for each in rows),
            2,
            about=(f"Mean rank of the {SCORE} over places, with its 95% interval. Lower is better."),
        ),
        Column(
            "W-T-L",
            tuple(f"{each.wins}-{each.ties}-{each.losses}" for each in rows),
            2,
            about=(
                "Wins, ties and losses: paired tests against the other calibrators at the same place "
                "(p < 0.05 after Holm's correction)."
            ),
        ),
        Column(
            "Brier cut",
            tuple("" if each.cut is None else _percents(each.cut) for each in rows),
            3,
            about=(
                f"Share by which the {SCORE} falls below that of the uncalibrated reward. Higher is better."
            ),
        ),
        *(
            Column(
                found.metrics.title(metric),
                tuple(_estimate(each.errors[metric]) if metric in each.errors else "" for each in rows),
                weight,
                about=(
                    f"{found.metrics.description(metric)} Mean over places; {found.metrics.direction(metric)}."
                ),
            )
            for metric, weight in zip(_other_metrics(), (5, 6), strict=False)
        ),
        Column(
            "IAS accuracy",
            tuple("" if gain is None else _percents(gain.accuracy, 1) for gain in gains),
            3,
            about="Accuracy of best-of-n + IAS with its rewards. Higher is better.",
        ),
        Column(
            "IAS samples",
            tuple("" if gain is None else _estimate(gain.samples, 1) for gain in gains),
            3,
            about="Mean samples of a question with IAS. Fewer are cheaper. Best-of-N draws N.",
        ),
        Column(
            "To equal cost",
            tuple(
                "" if gain is None or gain.to_equal_cost is None else _points(gain.to_equal_cost)
                for gain in gains
            ),
            4,
            about=(
                "Accuracy of IAS minus that of best-of-n with the same mean samples for every question, in percentage "
                "points. Higher is better."
            ),
        ),
        Column(
            "Fit",
            tuple("" if each.fit_seconds is None else duration(each.fit_seconds) for each in rows),
            7,
            about="Mean time of a fit.",
        ),
        Column("Source", tuple(each.citation for each in rows), 8, about="Where the method was published."),
    ]
    legend = ranking_legend(found)
    return Board(
        tuple(column for column in columns if any(column.values)),
        2,
        (legend,),
        "Ranking of the calibrators",
        legend,
    )


def ranking_legend(found: Overview) -> str:
    """Explain the ranking in a few sentences."""
    partly = any(each.places < found.places for each in found.ranking)
    return (
        f"Ranks compare the {SCORE} of the calibrators at each place, a combination of data set, LLM and PRM. "
        "Values are means over places with 95% intervals over questions. W-T-L: wins, ties and losses in paired tests."
        + (
            " Some calibrators were measured at a part of the places only. Compare two of them by W-T-L, or at the "
            "places that both have."
            if partly
            else ""
        )
    )


def placed(standing: Standing) -> str:
    """Return the rank of a calibrator, or the range of its plausible ranks."""
    low, high = standing.rank_low, standing.rank_high
    return f"{low}" if low == high else f"{low}-{high}"


def named(standing: Standing) -> str:
    """Return the name of a calibrator, with a mark if all of its cells are outdated."""
    return f"{standing.calibrator}, outdated" if standing.outdated else standing.calibrator


def _other_metrics() -> list[str]:
    return [name for name in MAIN_METRICS["calibration"] if name != RANKING_METRIC]


def _estimate(value: Quantity, digits: int = 3) -> str:
    return f"{number(value.value, digits)} {_ends(value, digits)}".rstrip()


def _ends(value: Quantity, digits: int = 3) -> str:
    return interval(value.low, value.high, digits)


def _percent(share: float, digits: int = 0) -> str:
    return f"{number(100 * share, digits)}%"


def _percents(value: Quantity, digits: int = 0) -> str:
    return f"{_percent(value.value, digits)} {interval(100 * value.low, 100 * value.high, digits)}".rstrip()


def _points(value: Quantity) -> str:
    ends = interval(100 * value.low, 100 * value.high, 1, signed=True)
    return f"{number(100 * value.value, 1, signed=True)} points {ends}".rstrip()
