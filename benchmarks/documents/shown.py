"""How the tables of evidence show values: with their 95% intervals, in Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from prmcal.db.text.formats import markdown_grid

_WIDTH = 120


def with_interval(value: float, low: float, high: float, digits: int = 3) -> str:
    """Return a value with its interval as text."""
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def measured(cell: Mapping[str, Any], metric: str, digits: int = 3) -> str:
    """Return a metric of a row of a leaderboard with its interval, as text."""
    return with_interval(cell[metric], cell[f"{metric}_low"], cell[f"{metric}_high"], digits)


def markdown(table: pd.DataFrame) -> str:
    """Return a table of text in Markdown."""
    rows = [[str(value) for value in row] for row in table.itertuples(index=False)]
    return markdown_grid(list(table.columns), rows, left=len(table.columns))


def paragraph(*lines: str) -> str:
    """Return lines as one paragraph for the documentation."""
    return textwrap.fill(" ".join(lines), _WIDTH, break_long_words=False, break_on_hyphens=False)


def numbered(sentences: Sequence[str]) -> str:
    """Return findings as a numbered list for the documentation."""
    return "\n".join(
        textwrap.fill(f"{number}. {sentence}", _WIDTH, subsequent_indent="   ", break_on_hyphens=False)
        for number, sentence in enumerate(sentences, 1)
    )
