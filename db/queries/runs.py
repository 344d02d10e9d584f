"""The jobs of a run and their progress, also while the run writes, and the submissions of a merged leaderboard."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import sqlalchemy as sa

from prmcal.db.metrics import TIERS
from prmcal.db.queries.cells import cell_numbers, cell_row
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.run_folder import finished_artifacts
from prmcal.db.tables import Cell, CellSubmission, Job, JobInput, Run, SeedSpread, Submission, Verification


def planned_shards(source: Source) -> pd.DataFrame:
    """Return the shards of every kind of job in the database, sorted by kind.

    The columns are kind, jobs, failed (number of failed or blocked jobs), shard_keys (list of keys) and
    seconds_per_shard (mean over finished jobs; missing if there is none).
    """
    query = sa.select(
        Job.kind, Job.status, Job.shards, Job.seconds, Job.parameters["shards"].label("planned")
    )
    found = frame(source, query.order_by(Job.kind, Job.job_key))
    done = found["status"] == "done"
    jobs = found.assign(
        failed=found["status"].isin(["failed", "blocked"]),
        seconds=found["seconds"].where(done, 0.0),
        done_shards=found["shards"].where(done, 0),
    ).groupby("kind")
    totals = jobs[["seconds", "done_shards"]].sum()
    return pd.DataFrame(
        {
            "jobs": jobs.size(),
            "failed": jobs["failed"].sum(),
            "shard_keys": jobs["planned"].agg(_keys),
            "seconds_per_shard": totals["seconds"] / totals["done_shards"].where(totals["done_shards"] > 0),
        }
    ).reset_index()


def _keys(planned: pd.Series) -> list[str]:
    return sorted({shard["key"] for shards in planned if shards for shard in shards})


def progress(planned: pd.DataFrame, directory: Path) -> pd.DataFrame:
    """Return the progress of a run, from its plan (:func:`planned_shards`) and the artifacts in its folder.

    The columns are kind, jobs, failed, shards, done (number of finished shards) and seconds_left (single-worker
    seconds; missing if shards are left and no job of the kind is finished).
    """
    shards = planned["shard_keys"].map(len)
    done = [
        len(finished_artifacts(directory, kind).intersection(keys))
        for kind, keys in zip(planned["kind"], planned["shard_keys"], strict=True)
    ]
    left = shards - done
    seconds = (left * planned["seconds_per_shard"].astype(float)).where(left > 0, 0.0)
    return planned[["kind", "jobs", "failed"]].assign(shards=shards, done=done, seconds_left=seconds)


@dataclass(frozen=True)
class CellJobs:
    """The keys of the jobs behind a calibration cell, and the data set and the split of its questions.

    `cell` is its row in the table ``cells``. The jobs computed trajectories, success counts, rewards and calibrated
    rewards. A key is empty if the database has no such job.
    """

    cell: dict[str, Any]
    dataset: str
    split: str
    rollout: str
    success: str
    score: str
    calibrated: str


def jobs_of(connection: sa.Connection, cell_id: str) -> CellJobs:
    """Return the jobs behind a cell of any leaderboard. Raise UnknownCellError as :func:`cell_row`.

    A scaling cell depends on the rewards of the calibration cell with the same LLM, PRM, calibrator and data set. If it
    has no PRM or no calibrator, the first of the grid is used instead.
    """
    row = _calibration_cell(connection, cell_row(connection, cell_id))
    measured = input_jobs(connection, row["job_key"])
    calibrated, success = measured.get("calibrated", ""), measured.get("success", "")
    below = input_jobs(connection, calibrated, success)
    split = connection.scalar(sa.select(Job.split).where(Job.job_key == row["job_key"]))
    return CellJobs(
        cell=row,
        dataset=row["dataset"],
        split=split or "",
        rollout=below.get("rollout", ""),
        success=success,
        score=below.get("score", ""),
        calibrated=calibrated,
    )


def input_jobs(connection: sa.Connection, *keys: str) -> dict[str, str]:
    """Return the keys of the jobs that some jobs read, by kind."""
    query = (
        sa.select(Job.kind, Job.job_key)
        .join(JobInput, JobInput.input_key == Job.job_key)
        .where(JobInput.job_key.in_(keys))
    )
    return {row.kind: row.job_key for row in connection.execute(query)}


def _calibration_cell(connection: sa.Connection, row: dict[str, Any]) -> dict[str, Any]:
    if row["leaderboard"] == "calibration":
        return row
    named = [getattr(Cell, kind) == row[kind] for kind in ("prm", "calibrator") if row[kind] is not None]
    numbers = cell_numbers()
    other_seed = Cell.seed.is_distinct_from(row["seed"])
    query = (
        sa.select(Cell.__table__)
        .join(numbers, numbers.c.cell_id == Cell.cell_id)
        .where(Cell.leaderboard == "calibration", Cell.llm == row["llm"], Cell.dataset == row["dataset"])
        .where(*named)
        .order_by(other_seed, Cell.conditions != row["conditions"], Cell.version != "", numbers.c.number)
        .limit(1)
    )
    found = connection.execute(query).mappings().one_or_none()
    return row if found is None else dict(found)


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
