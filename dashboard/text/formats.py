"""Numbers, names and foreign text as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from prmcal.db.text import formats
from prmcal.db.text.presentation import COORDINATE_TITLES, DIGITS

__all__ = [
    "LEFT_OUT",
    "MISSING",
    "coordinates",
    "escaped",
    "estimate",
    "estimates",
    "integer",
    "integers",
    "kept",
    "names",
    "number",
    "numbers",
    "settings",
    "submitter",
    "visible",
    "with_line_breaks",
]

MISSING = "\N{EN DASH}"
"""The text for a value that is missing or does not apply."""

LEFT_OUT = "(left out of the submission)"
"""What stands in the place of a text that a submission leaves out."""

_SETTINGS = ("target", "level")
_NO_BREAK = "\N{NO-BREAK SPACE}"
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_SPACES = re.compile(r"[ \t\r\n]+")


def kept(text: Any) -> str:
    """Return a text of a question or of a trajectory, or say that its submission leaves it out."""
    return text if isinstance(text, str) else LEFT_OUT


def escaped(text: str) -> str:
    """Return Markdown that shows a text unchanged, on one line: without markup, formulas or HTML."""
    return _PUNCTUATION.sub(r"\\\1", _SPACES.sub(" ", text))


def visible(text: str) -> str:
    """Escape the control characters of a text, such as those that change the direction of what follows. Tabs stay."""
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def submitter(submission: Mapping[str, Any]) -> str:
    """Return who sent a submission, on one line and with control characters escaped; its run if nobody is named.

    Parameters
    ----------
    submission : mapping
        A row of :func:`prmcal.db.queries.submissions.submissions`.
    """
    return visible(" ".join(submission["submitter"].split())) or f"run {submission['run_id']}"


def with_line_breaks(text: str, words: int) -> str:
    """Allow a line break only after every `words` words, so that a narrow table column does not get too narrow."""
    found = text.split(" ")
    lines = [_NO_BREAK.join(found[start : start + words]) for start in range(0, len(found), words)]
    return " ".join(lines)


def number(value: float | None, digits: int = DIGITS) -> str:
    """Format a number with a true minus sign. A missing value gives :data:`MISSING`."""
    if value is None or pd.isna(value):
        return MISSING
    return formats.number(value, digits).replace("-", "\N{MINUS SIGN}")


def integer(value: float | None) -> str:
    """Format a whole number with thousands separators. A missing value gives :data:`MISSING`."""
    return MISSING if value is None or pd.isna(value) else f"{int(value):,}"


def estimate(value: float, low: float, high: float, digits: int = DIGITS, mark: str = "") -> str:
    """Format a value, a mark and the 95% interval. A line can break only before the interval."""
    marked = f"{number(value, digits)}{_NO_BREAK}{mark}" if mark else number(value, digits)
    return f"{marked} [{number(low, digits)},{_NO_BREAK}{number(high, digits)}]"


def names(values: Iterable[Any]) -> list[str]:
    """Escape the names in a column. A missing name gives :data:`MISSING`."""
    return [escaped(value) if isinstance(value, str) else MISSING for value in values]


def numbers(values: Iterable[float | None], digits: int = DIGITS) -> list[str]:
    """Format the numbers in a column."""
    return [number(value, digits) for value in values]


def settings(values: Iterable[float | None]) -> list[str]:
    """Format the values of C or beta in a column, with as many digits as they need."""
    return [MISSING if pd.isna(value) else f"{value:g}" for value in values]


def integers(values: Iterable[float | None]) -> list[str]:
    """Format the whole numbers in a column."""
    return [integer(value) for value in values]


def coordinates(cells: pd.DataFrame, *kinds: str) -> dict[str, list[str]]:
    """Format coordinates of cells as columns by their titles: C and beta as settings, all others as names."""
    return {
        COORDINATE_TITLES[kind]: settings(cells[kind]) if kind in _SETTINGS else names(cells[kind])
        for kind in kinds
    }


def estimates(rows: pd.DataFrame, digits: int = DIGITS) -> list[str]:
    """Format rows of a value, the low and the high end of its interval as escaped Markdown."""
    return [escaped(estimate(value, low, high, digits)) for value, low, high in rows.itertuples(index=False)]
