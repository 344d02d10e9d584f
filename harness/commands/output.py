"""What the commands share: text tables, formats of the output, printable text, and the check of an option."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from prmcal.db.text.formats import duration
from prmcal.errors import PrmcalError

if TYPE_CHECKING:
    import pandas as pd

    from prmcal.harness.costs.estimate import Work

__all__ = ["FORMATS", "exported", "one_of", "plain_row", "printable", "text_table", "time_left"]

FORMATS = ("table", "json", "csv", "markdown")
_WIDE = 1000


def one_of(option: str, value: str, known: Sequence[str]) -> None:
    """Check that the value of an option is known.

    Raises
    ------
    PrmcalError
        If it is not: the message names the known values.
    """
    if value not in known:
        raise PrmcalError(f"{option} must be one of {', '.join(known)}. Got '{value}'.")


def exported(frame: pd.DataFrame, output_format: str) -> str:
    """Return all columns of a table as ``csv`` or ``json``."""
    if output_format == "csv":
        text: str = frame.to_csv(index=False, lineterminator="\n")
        return text
    return json.dumps([plain_row(row) for row in frame.to_dict("records")], indent=1) + "\n"


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for JSON: NaN and NA become None."""
    from prmcal.db.text.readable import missing  # loads SQLAlchemy, which `prmcal list` does not need

    return {name: None if missing(value) else value for name, value in row.items()}


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns aligned with spaces and a rule below the head. Lines are as long as their content."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in head:
        table.add_column(title, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    buffer = io.StringIO()
    Console(file=buffer, width=_WIDE, markup=False, highlight=False, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()).strip("\n")


def printable(text: str) -> str:
    """Return text from a model or a data set with its control characters escaped. Line breaks stay."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def time_left(work: Work) -> str:
    """Return the worker time that one kind of job still needs, in words."""
    if work.reused == work.shards:
        return "none"
    return "not known yet" if work.seconds is None else duration(work.seconds)
