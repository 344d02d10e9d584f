"""The result of a run at a glance: one sentence, three cards, and who is ahead."""

from collections.abc import Sequence

from prmcal.db.overview.competition import Competition, Competitor
from prmcal.db.overview.types import Overview
from prmcal.db.statistics.budgets import verdict
from prmcal.db.text.formats import counted, interval, number
from prmcal.db.text.health import misleading, summaries, title

QUESTION = "Does the PRM know when it is right?"
PLURALS = {"calibrator": "calibrators", "prm": "PRMs", "llm": "LLMs", "strategy": "strategies"}
MEAN_TITLES = {
    "calibrator": "Brier reduction",
    "prm": "Brier score (lower is better)",
    "llm": "Brier score (lower is better)",
    "strategy": "Accuracy over a fixed n of equal cost, in points",
}
"""The titles of the intervals of a leaderboard, by the kind of its rows."""


def answer(overview: Overview) -> str:
    """Say whether scores are too high, whether calibration repairs them, and whether this saves samples."""
    wrong = misleading(overview.health)
    if wrong:
        names = ", ".join(dict.fromkeys(title(check).lower() for check in wrong))
        return f"No number of this run can be trusted: {names}."
    if not overview.ranking:
        return "Not known yet: no setting has two measured calibrators."
    error, saving = overview.before.get("signed_error"), overview.saving
    sentences = []
    if error is not None:
        outcome = verdict(error.low, error.high)
        words = {"gain": "The scores are too high.", "loss": "The scores are too low."}
        sentences.append(words.get(outcome, "No error of the scores is clear on average."))
    if overview.repair is not None:
        repaired = verdict(overview.repair.low, overview.repair.high) == "gain"
        sentences.append("Calibration repairs them." if repaired else "No repair is clear.")
    if saving is not None:
        words = {
            "gain": "This saves samples.",
            "loss": "It saves no samples.",
            "no gain": "No saving of samples is clear.",
        }
        sentences.append(words[verdict(saving.share.low, saving.share.high)])
    sentences = sentences or ["Not known: the grid has no uncalibrated scores to compare with."]
    return " ".join([*sentences, *(["The run is in progress."] if overview.running else [])])


def extent(overview: Overview) -> str:
    """Say how much was measured, such as "4 settings, 60 questions"."""
    questions = sum(overview.questions.values())
    return f"{counted(overview.settings, 'setting')}, {counted(questions, 'question')}"


def winner(competition: Competition) -> str:
    """Say who is the best, or how many may be."""
    rivals, leaders = PLURALS[competition.kind], competition.leaders
    if not leaders:
        return f"Nothing to rank: no setting has two measured {rivals}."
    if len(leaders) == 1:
        return f"{leaders[0].name} is the best."
    if competition.reference in leaders:
        return "No calibrator is clearly better than the uncalibrated scores."
    ranked = sum(row.rank is not None for row in competition.rows)
    return f"No clear winner: {len(leaders)} of {ranked} {rivals} may be the best."


def mean_text(competition: Competition, row: Competitor) -> str:
    """Return the mean of a row with its interval."""
    mean = row.mean
    if mean is None:
        return ""
    factor, digits, unit = {"calibrator": (100, 0, "%"), "strategy": (100, 1, "")}.get(competition.kind, (1, 3, ""))
    signed = competition.kind == "strategy"
    ends = interval(factor * mean.low, factor * mean.high, digits, signed=signed)
    return f"{number(factor * mean.value, digits, signed=signed)}{unit} {ends}".rstrip()


def settings(competition: Competition) -> list[tuple[str, ...]]:
    """Return the names of each setting, without names that all settings share; a single setting has all its names."""
    settings = list(competition.settings)
    varying = [len({names[number] for names in settings}) > 1 for number in range(len(competition.kinds))]
    if not any(varying):
        return settings
    return [tuple(name for name, differs in zip(names, varying, strict=True) if differs) for names in settings]


def cautions(overview: Overview) -> Sequence[tuple[str, str, str]]:
    """Return title, figure and sentence of each warning, the most serious first."""
    failed = overview.counts["failed"]
    cells = [("Failed", f"{failed:,}", f"{counted(failed, 'cell')} failed. Page Runs says why.")] if failed else []
    return [*cells, *summaries(overview.health)]
