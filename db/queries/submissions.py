"""The submissions of a merged leaderboard: who sent which cells, and who verified them."""

from collections import Counter

import pandas as pd
import sqlalchemy as sa

from prmcal.db.metrics import TIERS
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import Cell, CellSubmission, Run, SeedSpread, Submission, Verification

_STORED = ("seed", "conditions", "version", "conflict", "tier", "verified_by", "verified_at", "outdated")
PROVENANCE = (*_STORED, "failed_verifications", "submissions")
"""The columns that only the cells of a merged leaderboard have."""


def is_merged(source: Source) -> bool:
    """Return whether the database is that of a merged leaderboard, which has submissions."""
    with connection_of(source) as connection:
        return connection.execute(sa.select(Submission.submission_id).limit(1)).first() is not None


def cell_provenance(source: Source) -> pd.DataFrame:
    """Return where each cell comes from: cell_id and the columns of :data:`PROVENANCE`.

    ``verified_at`` is a UTC time in ISO format, ``failed_verifications`` the number of verifications with a failed
    check of the cell, and ``submissions`` has the identifiers, separated by spaces.
    """
    with connection_of(source) as connection:
        failed = _failed_verifications(connection)
        cells = frame(connection, sa.select(*Cell.columns("cell_id", *_STORED)))
        order = (CellSubmission.cell_id, CellSubmission.submission_id)
        sent = frame(
            connection, sa.select(CellSubmission.cell_id, CellSubmission.submission_id).order_by(*order)
        )
    listed = sent.groupby("cell_id")["submission_id"].agg(" ".join)
    moments = cells["verified_at"]
    return cells.assign(
        verified_at=[None if pd.isna(each) else f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in moments],
        failed_verifications=[failed[each] for each in cells["cell_id"]],
        submissions=cells["cell_id"].map(listed).fillna("").astype(object),
    )


def submissions(source: Source) -> pd.DataFrame:
    """Return the submissions, those that were measured first before the others.

    The columns are those of the table ``submissions``; grid_name, grid_key, grid, started_at, finished_at,
    prmcal_version and hardware of their runs; tier, verified_by and verified_at of the highest tier that a verification
    passed (of several, the first; None if none did); and failed, the number of verifications that did not pass. What is
    missing is None.
    """
    about = ("grid_name", "grid_key", "grid", "started_at", "finished_at", "prmcal_version", "hardware")
    query = (
        sa.select(Submission, *Run.columns(*about))
        .outerjoin(Run, Run.run_id == Submission.run_id)
        .order_by(Run.started_at.nulls_last(), Submission.submission_id)
    )
    with connection_of(source) as connection:
        found, checked = frame(connection, query), verifications(connection)
    passed = checked[checked["passed"].astype(bool)]
    highest = passed["tier"].map(TIERS.index).sort_values(ascending=False, kind="stable")
    best = passed.loc[highest.index].drop_duplicates("submission_id")
    found = found.merge(
        best[["submission_id", "tier", "verified_by", "verified_at"]], "left", "submission_id"
    )
    failed = checked[~checked["passed"].astype(bool)]["submission_id"].value_counts()
    found["failed"] = found["submission_id"].map(failed).fillna(0).astype(int)
    whole = found.astype(object)
    return whole.where(whole.notna(), None)


def verifications(source: Source) -> pd.DataFrame:
    """Return the verifications of all submissions, with the columns of their table, the oldest first."""
    return frame(
        source, sa.select(Verification).order_by(Verification.verified_at, Verification.verification_id)
    )


def seed_spreads(source: Source) -> pd.DataFrame:
    """Return the spreads of values between seeds."""
    return frame(source, sa.select(SeedSpread).order_by(SeedSpread.cell_id, SeedSpread.metric))


def _failed_verifications(connection: sa.Connection) -> Counter[str]:
    """Return how many verifications have a failed check of each cell. A failed check that names no cells is of all."""
    failed = sa.select(Verification.submission_id, Verification.checks).where(Verification.passed.is_(False))
    named = sa.func.coalesce(Cell.base_id, Cell.cell_id).label("base_id")
    query = sa.select(CellSubmission.submission_id, Cell.cell_id, named)
    sent = frame(connection, query.join(Cell, Cell.cell_id == CellSubmission.cell_id))
    found: Counter[str] = Counter()
    for submission_id, record in frame(connection, failed).itertuples(index=False):
        cells = [each["cells"] for each in record.get("checks", []) if not each["passed"]]
        wrong = sent["submission_id"] == submission_id
        if all(cells):
            wrong &= sent["base_id"].isin({cell for each in cells for cell in each})
        found.update(sent.loc[wrong, "cell_id"])
    return found
