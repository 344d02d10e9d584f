"""The presentation of results: formats of numbers, escaping, titles, marks, and words of the provenance.

Names and reasons come from grids and plugins, so they must be escaped in LaTeX.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from prmcal.db.metrics import MAIN_METRICS, Leaderboard
from prmcal.db.statistics.paired import SIGNIFICANCE

_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "β": r"\ensuremath{\beta}",
    "[": "{[}",  # at the beginning of a row it would be a distance
    **{symbol: f"\\{symbol}" for symbol in "&%$#_{}"},
}


with Path(__file__).with_name("words.toml").open("rb") as _file:
    WORDS: dict[str, Any] = tomllib.load(_file)
"""Titles, meanings and legends, by their kinds and names."""
DIGITS = 3
"""Decimal places of a measured value."""

COORDINATE_TITLES: dict[str, str] = WORDS["titles"]
"""Titles of the coordinates of a cell, in the order of columns."""


def number(value: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return a number with some decimal places, and with a plus sign if `signed`. A rounded 0 has no minus sign."""
    return f"{value:{'+' if signed else ''}z,.{digits}f}"


def typeset(text: str) -> str:
    """Return a text with true minus signs before numbers, and with both ends of an interval on one line."""
    signed = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", text)
    return re.sub(r"(\[\S+,) (\S+\])", "\\1\N{NO-BREAK SPACE}\\2", signed)


def amount(value: float) -> str:
    """Return a cost, such as tokens or seconds, with four significant digits and no exponent if it is large."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:z.4g}"


def interval(low: float, high: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return ``[low, high]``; empty if the ends are NaN."""
    if low != low or high != high:
        return ""
    return f"[{number(low, digits, signed=signed)}, {number(high, digits, signed=signed)}]"


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return ``1 setting`` or ``18 settings``."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def graded(verdict: str, finish_reason: str) -> str:
    """Return the verdict on a trajectory, and why it has no answer if its thought was cut off."""
    return f"{verdict}, cut off inside its thought" if finish_reason == "thought" else verdict


def escape_latex(text: str) -> str:
    """Return LaTeX that shows a text unchanged."""
    return "".join(_LATEX_SPECIAL.get(symbol, symbol) for symbol in " ".join(text.split()))


def duration(seconds: float) -> str:
    """Return a number of seconds as ``45 s``, ``3 min`` or ``2 h 5 min``."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"  # A clock that is put back makes it negative.
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def missing(value: Any) -> bool:
    """Return whether a value of a DataFrame is missing."""
    import pandas as pd

    return value is None or value is pd.NA or bool(value != value)


def time_left(shards: int, seconds: float | None) -> str:
    """Return the worker time that the unfinished shards of one kind of job still need, in words."""
    if not shards:
        return "none"
    return "not known yet" if missing(seconds) or seconds is None else duration(seconds)


@dataclass(frozen=True)
class LeaderboardText:
    """Title, description and columns of a leaderboard."""

    title: str
    description: str
    """The name, and one sentence on the content of the leaderboard."""
    main_metrics: tuple[str, ...]
    """Names of the metrics that are shown unless the reader chooses others."""
    rows: str
    """Title of the column ``rows``: the things that the leaderboard counts besides questions."""


LEADERBOARDS: dict[Leaderboard, LeaderboardText] = {
    name: LeaderboardText(**WORDS["leaderboards"][name], main_metrics=MAIN_METRICS[name])
    for name in get_args(Leaderboard)
}
"""The leaderboards by name."""

MARKS = {"best": "*", "tied": "="}
"""Marks of standings in plain text. Worse values have no mark."""

SYMBOLS = {"best": "●", "tied": "○", "worse": "▽"}
"""Marks of standings on web pages."""


def standings_legend(marks: Mapping[str, str], group: str) -> str:
    """Explain the marks of standings, such as :data:`MARKS`, in one sentence.

    `group` names the values that compete with each other, such as "its row".
    """
    meanings = "; ".join(
        f"{mark}: {WORDS['standings'][standing].format(group=group)}" for standing, mark in marks.items()
    )
    return f"{meanings} (paired bootstrap over questions, p < {SIGNIFICANCE} after Holm's correction)."


def leaderboard_legend(marks: Mapping[str, str]) -> str:
    """Explain intervals and marks below a leaderboard with these marks."""
    worse = "" if "worse" in marks else "is worse, or "
    return (
        "Values with 95% intervals over questions. Cells with the same data set, LLM and PRM form a "
        f"group. {standings_legend(marks, 'its group')} A value without a mark {worse}was not compared."
    )


def source_lines(cell: Mapping[str, Any], run: Mapping[str, Any] | None) -> list[str]:
    """Return which run measured a cell, and by how much another run differs, from the rows of both."""
    lines = []
    if run is not None:
        lines.append(
            f"Measured by run {run['run_id']} of the grid '{run['grid_name']}', with prmcal {run['prmcal_version']}."
        )
    if not missing(cell["difference"]):
        lines.append(f"Another run has other values under the same key. They differ by: {cell['difference']}.")
    return lines
