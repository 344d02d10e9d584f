"""The tables of the paper as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prmcal.db.metrics import Metrics
from prmcal.db.queries.leaderboard import REPORTED_TABLES, reported
from prmcal.db.text.formats import number
from prmcal.db.text.presentation import COORDINATE_TITLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MISSING", "PaperTable", "paper_tables"]

MISSING = "\N{EN DASH}"
"""What tables of the site show for a value that there is not."""

_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper as text: heads and rows."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def paper_tables(described: Metrics) -> list[PaperTable]:
    """Return the tables of the paper. `described` are the metrics of a run, for their titles."""
    numbers = reported()
    return [
        _paper_table(title, numbers[numbers["table"] == label], described)
        for label, title in REPORTED_TABLES.items()
    ]


def _paper_table(title: str, numbers: pd.DataFrame, described: Metrics) -> PaperTable:
    used = [name for name in COORDINATE_TITLES if name in numbers and numbers[name].notna().any()]
    metrics = list(dict.fromkeys(numbers["metric"]))
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in numbers.to_dict("records"):
        place = tuple(_name(row[name]) for name in used)
        value = number(row["value"], row["digits"]).replace("-", _MINUS)
        found.setdefault(place, {})[row["metric"]] = value
    return PaperTable(
        title=title,
        heads=(*(COORDINATE_TITLES[name] for name in used), *(described.title(metric) for metric in metrics)),
        rows=tuple(
            (*place, *(values.get(metric, MISSING) for metric in metrics)) for place, values in found.items()
        ),
    )


def _name(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
