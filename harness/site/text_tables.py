"""Tables of the pages that are text: those of the paper, and what the site says of each submission.

They are dicts and tuples, which the templates of the pages read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from prmcal.db.catalog import submissions, verifications
from prmcal.db.metrics import Leaderboard, Metrics, cell_number
from prmcal.db.queries.leaderboard import REPORTED_TABLES, reported
from prmcal.db.reader import Source
from prmcal.db.text.board import estimate
from prmcal.db.text.formats import missing, number
from prmcal.db.text.presentation import COORDINATE_TITLES, LEADERBOARDS
from prmcal.db.text.provenance import renewal, signature_text, verified_text
from prmcal.registry.messages import excerpt

if TYPE_CHECKING:
    import pandas as pd


TextTable = dict[str, Any]
"""A table as text: its title, heads and rows."""

_MISSING = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"


def paper_tables(described: Metrics) -> list[TextTable]:
    """Return the tables of the paper. `described` are the metrics of a run, for their titles."""
    tables = []
    for label, title in REPORTED_TABLES.items():
        numbers = reported(table=label)
        used = [name for name in COORDINATE_TITLES if name in numbers and numbers[name].notna().any()]
        metrics = list(dict.fromkeys(numbers["metric"]))
        found: dict[tuple[str, ...], dict[str, str]] = {}
        for row in numbers.to_dict("records"):
            value = number(row["value"], row["digits"]).replace("-", _MINUS)
            place = tuple("" if missing(row[name]) else row[name] for name in used)
            found.setdefault(place, {})[row["metric"]] = value
        heads = [*(COORDINATE_TITLES[name] for name in used), *map(described.title, metrics)]
        rows = [[*place, *(own.get(metric, _MISSING) for metric in metrics)] for place, own in found.items()]
        tables.append({"title": title, "heads": heads, "rows": rows})
    return tables


def submission_pages(
    source: Source, frames: Mapping[Leaderboard, pd.DataFrame], described: Metrics, page: str, prefix: str
) -> list[dict[str, Any]]:
    """Return what the site says of each submission of a merged leaderboard; nothing for the database of a run.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    frames : mapping
        The leaderboards, as :func:`prmcal.db.queries.leaderboard.leaderboard` returns them.
    described : Metrics
        The metrics of the leaderboards.
    page : str
        The name of the page with the leaderboards.
    prefix : str
        The beginning of the names of the pages.

    Returns
    -------
    list of dict
        Each has the name of its page, the submitter and their note on one line each, the highest tier of verification,
        further facts with their titles, its rows on each leaderboard, and its verifications with their checks.
    """
    checked = verifications(source).to_dict("records")
    found = []
    for row in submissions(source).to_dict("records"):
        own = row["submission_id"]
        measured = row["finished_at"] or row["started_at"]
        facts = {
            "Licence": row["licence"] or "none is given",
            "Signature": signature_text(row["signed_by"]),
            "Cells": f"{row['cells']:,}",
            "Texts": "included" if row["texts"] else "left out",
            "Grid": row["grid_name"] or "unknown",
            "Measured": f"{measured:%Y-%m-%d}" if measured else "unknown",
            "prmcal": row["prmcal_version"] or "unknown",
        }
        boards = [_rows(frame, name, described, own, page) for name, frame in frames.items()]
        found.append(
            {
                "submission_id": own,
                "page": f"{prefix}submission-{own}.html",
                "name": excerpt(row["submitter"] or f"run {row['run_id']}"),
                "note": excerpt(row["note"]),
                "verified": verified_text(row["tier"], row["verified_by"], row["verified_at"], row["failed"]),
                "is_verified": row["tier"] is not None,
                "facts": {title: excerpt(text) for title, text in facts.items()},
                "boards": [board for board in boards if board["rows"]],
                "verifications": [each for each in checked if each["submission_id"] == own],
            }
        )
    return found


def _rows(
    frame: pd.DataFrame, board: Leaderboard, described: Metrics, submission_id: str, page: str
) -> TextTable:
    own = frame.loc[[submission_id in str(each).split() for each in frame["submissions"]]]
    names = [name for name in COORDINATE_TITLES if own[name].notna().any()]
    metrics = [name for name in LEADERBOARDS[board].main_metrics if name in own and own[name].notna().any()]
    rows = []
    for row in own.to_dict("records"):
        verified = verified_text(
            row["tier"], row["verified_by"], row["verified_at"], row["failed_verifications"]
        )
        rows.append(
            {
                "number": cell_number(row["number"]),
                "link": f"{page}#{board}.row={quote(row['cell_id'], safe='')}",
                "names": ["" if missing(row[name]) else row[name] for name in names],
                "numbers": [_value(row, metric) for metric in metrics],
                "questions": "" if missing(row["questions"]) else f"{row['questions']:,.0f}",
                "verified": verified,
                "outdated": "" if missing(row["outdated"]) else row["outdated"],
                "renewal": renewal(row),
            }
        )
    heads = [*(COORDINATE_TITLES[name] for name in names), *map(described.title, metrics), "Questions"]
    return {"title": LEADERBOARDS[board].title, "heads": heads, "rows": rows}


def _value(row: Mapping[str, Any], metric: str) -> str:
    if missing(row[metric]):
        return _MISSING if row["status"] == "done" else str(row["status"])
    text = estimate(metric, row[metric], row[f"{metric}_low"], row[f"{metric}_high"])
    return text.replace(", ", ",\N{NO-BREAK SPACE}")  # a line breaks before an interval, never within it
