"""How leaderboards are presented: titles, default columns, digits, marks and the words that explain them.

The command line, the dashboard, the site and the report all read these, so that they say the same. The titles of
metrics come with the run: see :mod:`prmcal.db.queries.cells`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prmcal.db.metrics import MAIN_METRICS, Leaderboard
from prmcal.db.statistics.paired import SIGNIFICANCE

DIGITS = 3
"""Decimal places of a measured value."""

COORDINATE_TITLES = {
    "dataset": "Data set",
    "llm": "LLM",
    "prm": "PRM",
    "strategy": "Strategy",
    "target": "C",
    "level": "β",
    "calibrator": "Calibrator",
}
"""Titles of the coordinates of a cell, in the order of columns."""

VARIANT_TITLES = {"conditions": "Conditions", "version": "Version"}
"""Titles of what tells cells of a merged leaderboard apart whose coordinates are equal."""


@dataclass(frozen=True)
class LeaderboardText:
    """Title, description and columns of a leaderboard."""

    title: str
    description: str
    """The name, and what the leaderboard shows in one sentence."""
    main_metrics: tuple[str, ...]
    """Names of the metrics that are shown unless the reader chooses others."""
    rows: str
    """Title of the column ``rows``: what the leaderboard counts besides questions."""


LEADERBOARDS: dict[Leaderboard, LeaderboardText] = {
    "calibration": LeaderboardText(
        "Calibration",
        "Errors of the rewards, compared with Monte Carlo success rates on the test questions.",
        MAIN_METRICS["calibration"],
        "Prefixes",
    ),
    "scaling": LeaderboardText(
        "Scaling",
        "Accuracy and budget of strategies. With IAS, the budget of a question depends on its calibrated reward.",
        MAIN_METRICS["scaling"],
        "Trajectories",
    ),
    "league": LeaderboardText(
        "League",
        "Strategies at equal cost: the accuracy of each over its whole range of budgets, and what it saves.",
        MAIN_METRICS["league"],
        "Trajectories",
    ),
}
"""The leaderboards by name."""

MARKS = {"best": "*", "tied": "="}
"""Marks of standings in plain text. Worse values have none."""

SYMBOLS = {"best": "●", "tied": "○", "worse": "▽", "last": "▼"}
"""Marks of standings on web pages. "last" marks the worst of a group where a page tells it from other worse values."""

SECONDS_LEGEND = "Seconds are single-worker seconds, measured on the generation and scoring jobs."
"""Explains the seconds in a table of costs."""

_MEANINGS = {
    "best": "best of {group}",
    "tied": "not significantly different from the best",
    "worse": "significantly worse than the best",
    "last": "worst of {group}, and significantly worse than the best",
}


def standings_legend(marks: Mapping[str, str], group: str) -> str:
    """Explain the marks of standings in one sentence.

    Parameters
    ----------
    marks : mapping of str to str
        The mark of each standing that has one, such as :data:`MARKS`.
    group : str
        The values that compete with each other, such as "its row".
    """
    meanings = "; ".join(
        f"{mark}: {_MEANINGS[standing].format(group=group)}" for standing, mark in marks.items()
    )
    return f"{meanings} (paired bootstrap over questions, p < {SIGNIFICANCE} after Holm's correction)."


def leaderboard_legend(marks: Mapping[str, str]) -> str:
    """Explain intervals, marks and letters below a leaderboard with these marks."""
    return (
        "Values with 95% intervals over questions. Cells with the same data set, LLM and PRM form a "
        f"group. {standings_legend(marks, 'its group')} Cells of a group that share a letter do not differ "
        "significantly. A value without a mark or letter was not compared."
    )
