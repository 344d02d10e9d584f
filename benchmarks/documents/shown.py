"""The values of tables of evidence, with their 95% intervals and in Markdown, and the tables that are kept."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

_WIDTH = 120


def with_interval(value: float, low: float, high: float, digits: int = 3) -> str:
    """Return a value with its interval as text."""
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def measured(cell: Mapping[str, Any], metric: str, digits: int = 3) -> str:
    """Return a metric of a row of a leaderboard with its interval, as text."""
    return with_interval(cell[metric], cell[f"{metric}_low"], cell[f"{metric}_high"], digits)


def points(row: Mapping[str, Any], name: str = "difference") -> str:
    """Return a difference of accuracies with its interval, in points, as text."""
    low, high = (f"{100 * row[f'{name}_{end}']:+.1f}" for end in ("low", "high"))
    return f"{100 * row[name]:+.1f} [{low}, {high}]"


def keep(table: pd.DataFrame, folder: Path, name: str) -> None:
    """Keep a table for the documents, whose texts are made from it."""
    table.round(6).to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")


def kept_in(folder: Path, name: str) -> pd.DataFrame:
    """Return a table that was kept."""
    return pd.read_csv(folder / f"{name}.csv")


def markdown(table: pd.DataFrame) -> str:
    """Return a table of text in Markdown."""
    rows = [[str(value) for value in row] for row in table.itertuples(index=False)]
    lines = [list(table.columns), ["---"] * len(table.columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def paragraph(*lines: str) -> str:
    """Return lines as one paragraph for the documentation."""
    return textwrap.fill(" ".join(lines), _WIDTH, break_long_words=False, break_on_hyphens=False)


def numbered(sentences: Sequence[str]) -> str:
    """Return findings as a numbered list for the documentation."""
    return "\n".join(
        textwrap.fill(f"{number}. {sentence}", _WIDTH, subsequent_indent="   ", break_on_hyphens=False)
        for number, sentence in enumerate(sentences, 1)
    )
