"""Values with their 95% intervals as text, tables in Markdown, and where documents have them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

README = Path(__file__).with_name("README.md")
_WIDTH = 120


def with_interval(value: float, low: float, high: float, shape: str = ".3f") -> str:
    """Return a value with its interval as text, in a format such as ``+.1f``."""
    return f"{value:{shape}} [{low:{shape}}, {high:{shape}}]"


def measured(row: Mapping[str, Any], name: str, shape: str = ".3f", scale: float = 1.0) -> str:
    """Return a value of a row with its interval, in the columns NAME, NAME_low and NAME_high, times a scale."""
    value, low, high = (scale * row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return with_interval(value, low, high, shape)


def points(row: Mapping[str, Any], name: str = "difference") -> str:
    """Return a difference of accuracies with its interval, in points, as text."""
    return measured(row, name, "+.1f", 100)


def percents(row: Mapping[str, Any], name: str, digits: int = 0) -> str:
    """Return a share with its interval, in percent, as text."""
    return measured(row, name, f".{digits}f", 100).replace(" ", "% ", 1)


def signed(row: Mapping[str, Any], name: str = "error") -> str:
    """Return a value with its sign and its interval, as text."""
    return measured(row, name, "+.3f")


def rows_where(table: pd.DataFrame, **values: str | None) -> pd.DataFrame:
    """Return the rows that have these values. None is no value."""
    for column, value in values.items():
        table = table[table[column].isna() if value is None else table[column] == value]
    return table


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


def table_in(document: Path, name: str) -> str:
    """Return what stands between the comments ``<!-- table: NAME -->`` and ``<!-- end -->`` of a document.

    Raises a ValueError if the document has no such place.
    """
    _, mark, after = document.read_text(encoding="utf-8").partition(f"<!-- table: {name} -->\n")
    if not mark:
        raise ValueError(f"{document} needs the comments <!-- table: {name} --> and <!-- end -->.")
    return after.partition("<!-- end -->")[0]


def write_table(document: Path, name: str, table: str) -> None:
    """Write a table where :func:`table_in` reads one."""
    mark, text = f"<!-- table: {name} -->\n", document.read_text(encoding="utf-8")
    document.write_text(text.replace(f"{mark}{table_in(document, name)}", f"{mark}{table}\n"), encoding="utf-8")
