"""Numbers and foreign text as the pages show them."""

from __future__ import annotations

import re

import pandas as pd

__all__ = ["amount", "estimate", "number", "plain"]

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def plain(text: str) -> str:
    """Escape text so that Markdown shows it as it is, on one line: no markup, no formula, no HTML."""
    return _PUNCTUATION.sub(r"\\\1", " ".join(text.split()))


def number(value: float | None, digits: int = 3) -> str:
    """Format a value with a true minus sign; a dash if there is none."""
    if pd.isna(value):
        return "–"  # noqa: RUF001 (an en dash, on purpose)
    return f"{value:.{digits}f}".replace("-", "−")  # noqa: RUF001 (a minus sign, on purpose)


def estimate(value: float, low: float, high: float, digits: int = 3) -> str:
    """Format a value with its 95% interval."""
    return f"{number(value, digits)} [{number(low, digits)}, {number(high, digits)}]"


def amount(count: float | None) -> str:
    """Format a whole number with separators; a dash if there is none."""
    return number(None) if pd.isna(count) else f"{int(count):,}"
