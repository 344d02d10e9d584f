"""The submissions of a merged leaderboard as text: an index, and a page for each with its rows and verifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from prmcal.db.catalog import submissions, verifications
from prmcal.db.metrics import Leaderboard, Metrics, cell_number
from prmcal.db.reader import Source
from prmcal.db.text.board import estimate
from prmcal.db.text.formats import missing
from prmcal.db.text.presentation import COORDINATE_TITLES, LEADERBOARDS
from prmcal.db.text.provenance import renewal, signature_text, verified_text
from prmcal.harness.site.paper import MISSING
from prmcal.registry.messages import excerpt

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Check", "Row", "Rows", "SubmissionPage", "Verified", "read_submissions"]


@dataclass(frozen=True)
class Check:
    """A check of a verification as text."""

    tier: str
    name: str
    outcome: str
    n: str
    finding: str


@dataclass(frozen=True)
class Verified:
    """A verification of a submission as text, with its checks."""

    title: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Row:
    """A cell of a submission as text.

    `link` is the address of its row in the leaderboard. `names` are its coordinates, and `values` what was measured.
    """

    number: str
    link: str
    names: tuple[str, ...]
    values: tuple[str, ...]
    verified: str
    outdated: str
    renewal: str


@dataclass(frozen=True)
class Rows:
    """The cells of a submission on one leaderboard: the heads of their names and values, and the rows."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class SubmissionPage:
    """What the site says of a submission.

    Attributes
    ----------
    submission_id, page : str
        The identifier, and the name of the page.
    name, note : str
        The submitter and their note, each on one line.
    verified : str
        The highest tier at which it was verified, by whom and when.
    is_verified : bool
        Whether a verification of it passed.
    facts : tuple of (str, str)
        Further facts with their titles.
    boards : tuple of Rows
    verifications : tuple of Verified
    """

    submission_id: str
    page: str
    name: str
    note: str
    verified: str
    is_verified: bool
    facts: tuple[tuple[str, str], ...]
    boards: tuple[Rows, ...]
    verifications: tuple[Verified, ...]


def read_submissions(
    source: Source, frames: Mapping[Leaderboard, pd.DataFrame], described: Metrics, page: str, prefix: str
) -> list[SubmissionPage]:
    """Return the submissions of a merged leaderboard; none for the database of a run.

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
    """
    checked = verifications(source)
    return [
        SubmissionPage(
            submission_id=row["submission_id"],
            page=f"{prefix}submission-{row['submission_id']}.html",
            name=excerpt(row["submitter"] or f"run {row['run_id']}"),
            note=excerpt(row["note"]),
            verified=verified_text(row["tier"], row["verified_by"], row["verified_at"], row["failed"]),
            is_verified=row["tier"] is not None,
            facts=_facts(row),
            boards=tuple(
                found
                for name, frame in frames.items()
                if (found := _rows(frame, name, described, row["submission_id"], page)).rows
            ),
            verifications=tuple(
                _verified(each)
                for each in checked[checked["submission_id"] == row["submission_id"]].to_dict("records")
            ),
        )
        for row in submissions(source).to_dict("records")
    ]


def _facts(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    measured = row["finished_at"] or row["started_at"]
    facts = [
        ("Licence", row["licence"] or "none is given"),
        ("Signature", signature_text(row["signed_by"])),
        ("Cells", f"{row['cells']:,}"),
        ("Texts", "included" if row["texts"] else "left out"),
        ("Grid", row["grid_name"] or "unknown"),
        ("Measured", f"{measured:%Y-%m-%d}" if measured else "unknown"),
        ("prmcal", row["prmcal_version"] or "unknown"),
    ]
    return tuple((title, excerpt(text)) for title, text in facts)


def _rows(frame: pd.DataFrame, board: Leaderboard, described: Metrics, submission_id: str, page: str) -> Rows:
    sent = [submission_id in str(each).split() for each in frame["submissions"]]
    own = frame.loc[sent]
    names = [name for name in COORDINATE_TITLES if own[name].notna().any()]
    metrics = [name for name in LEADERBOARDS[board].main_metrics if name in own and own[name].notna().any()]
    rows = []
    for row in own.to_dict("records"):
        values = [_value(row, metric) for metric in metrics]
        values.append("" if missing(row["questions"]) else f"{row['questions']:,.0f}")
        outdated = "" if missing(row["outdated"]) else str(row["outdated"])
        rows.append(
            Row(
                number=cell_number(row["number"]),
                link=f"{page}#{board}.row={quote(row['cell_id'], safe='')}",
                names=tuple("" if missing(row[name]) else _plain(row[name]) for name in names),
                values=tuple(values),
                verified=verified_text(
                    row["tier"], row["verified_by"], row["verified_at"], row["failed_verifications"]
                ),
                outdated=outdated,
                renewal=renewal(row) if outdated else "",
            )
        )
    heads = (*(COORDINATE_TITLES[name] for name in names), *map(described.title, metrics), "Questions")
    return Rows(LEADERBOARDS[board].title, heads, tuple(rows))


def _value(row: Mapping[str, Any], metric: str) -> str:
    if missing(row[metric]):
        return MISSING if row["status"] == "done" else str(row["status"])
    text = estimate(metric, row[metric], row[f"{metric}_low"], row[f"{metric}_high"])
    return text.replace(", ", ",\N{NO-BREAK SPACE}")  # a line breaks before an interval, never within it


def _verified(row: Mapping[str, Any]) -> Verified:
    outcome = "passed" if row["passed"] else "failed"
    return Verified(
        f"{row['tier']}: {outcome}. Verified by {row['verified_by']}, {row['verified_at']:%Y-%m-%d}, "
        f"prmcal {row['prmcal_version']}.",
        tuple(
            Check(
                each["tier"],
                each["check"],
                "passed" if each["passed"] else "failed",
                f"{each['n']:,}",
                each["message"],
            )
            for each in row["checks"].get("checks", [])
        ),
    )


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
