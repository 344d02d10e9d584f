"""Numbers and foreign text as the pages show them."""

from __future__ import annotations

import re

import pandas as pd

__all__ = ["amount", "estimate", "in_lines", "number", "plain"]

_DASH = "\N{EN DASH}"
_NO_BREAK = "\N{NO-BREAK SPACE}"
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_SPACES = re.compile(r"[ \t\r\n]+")


def plain(text: str) -> str:
    """Escape text so that Markdown shows it as it is, on one line: no markup, no formula, no HTML."""
    return _PUNCTUATION.sub(r"\\\1", _SPACES.sub(" ", text))


def in_lines(text: str, words: int) -> str:
    """Let lines end only after so many words: in a narrow table a column would be a tower of single words."""
    found = text.split(" ")
    lines = [_NO_BREAK.join(found[start : start + words]) for start in range(0, len(found), words)]
    return " ".join(lines)


def number(value: float | None, digits: int = 3) -> str:
    """Format a value with a true minus sign; a dash if there is none."""
    if value is None or pd.isna(value):
        return _DASH
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def estimate(value: float, low: float, high: float, digits: int = 3, mark: str = "") -> str:
    """Format a value with its 95% interval, and a mark behind it. A line can end only between the two."""
    marked = f"{number(value, digits)}{_NO_BREAK}{mark}" if mark else number(value, digits)
    return f"{marked} [{number(low, digits)},{_NO_BREAK}{number(high, digits)}]"


def amount(count: float | None) -> str:
    """Format a whole number with separators; a dash if there is none."""
    return _DASH if count is None or pd.isna(count) else f"{int(count):,}"
