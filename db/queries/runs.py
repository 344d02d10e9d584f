"""The jobs of a run and their progress, also while the run writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import sqlalchemy as sa

from prmcal.db.queries.cells import cell_numbers, cell_row
from prmcal.db.reader import Source, frame
from prmcal.db.run_folder import finished_artifacts
from prmcal.db.tables import Cell, JobInput, JobRow


def planned_shards(source: Source) -> pd.DataFrame:
    """Return the shards of every kind of job in the database, sorted by kind.

    The columns are kind, jobs, failed (number of failed or blocked jobs), shard_keys (list of keys) and
    seconds_per_shard (mean over finished jobs; missing if there is none).
    """
    query = sa.select(
        JobRow.kind, JobRow.status, JobRow.shards, JobRow.seconds, JobRow.parameters["shards"].label("planned")
    )
    jobs = frame(source, query.order_by(JobRow.kind, JobRow.job_key))
    done = jobs["status"] == "done"
    jobs = jobs.assign(
        failed=jobs["status"].isin(["failed", "blocked"]),
        seconds=jobs["seconds"].where(done, 0.0),
        done_shards=jobs["shards"].where(done, 0),
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
    unfinished = shards - done
    seconds = (unfinished * planned["seconds_per_shard"].astype(float)).where(unfinished > 0, 0.0)
    return planned[["kind", "jobs", "failed"]].assign(shards=shards, done=done, seconds_left=seconds)


@dataclass(frozen=True)
class CellJobs:
    """The keys of the jobs behind a calibration cell, and the data set and the split of its questions.

    `cell` is the cell's row in the table ``cells``. The jobs graded trajectories, and computed success counts, rewards
    and calibrated rewards. A key is empty if the database has no such job.
    """

    cell: dict[str, Any]
    dataset: str
    split: str
    graded: str
    success: str
    score: str
    calibrated: str


def jobs_of(connection: sa.Connection, cell_id: str) -> CellJobs:
    """Return the jobs behind a cell of any leaderboard. Raise UnknownCellError as :func:`cell_row`.

    A scaling cell depends on the rewards of the calibration cell with the same LLM, PRM, calibrator and data set. If it
    has no PRM or no calibrator, the first of the grid is used instead.
    """
    row = _calibration_cell(connection, cell_row(connection, cell_id))
    read_by_cell = input_jobs(connection, row["job_key"])
    calibrated, success = read_by_cell.get("calibrated", ""), read_by_cell.get("success", "")
    below = input_jobs(connection, calibrated, success)
    imported = read_by_cell.get("imported", "")
    split = connection.scalar(sa.select(JobRow.split).where(JobRow.job_key == row["job_key"]))
    graded, score = below.get("graded", imported), below.get("score", "")
    return CellJobs(row, row["dataset"], split or "", graded, success or imported, score, calibrated)


def input_jobs(connection: sa.Connection, *keys: str) -> dict[str, str]:
    """Return the keys of the jobs that some jobs read, by kind."""
    jobs = sa.select(JobRow.kind, JobRow.job_key).join(JobInput, JobInput.input_key == JobRow.job_key)
    return {row.kind: row.job_key for row in connection.execute(jobs.where(JobInput.job_key.in_(keys)))}


def graded_jobs() -> sa.Subquery:
    """Select the job with texts and the job that graded them: `texts` and `graded`, with dataset, split and llm.

    Imported data have one job for both.
    """
    labels = (JobRow.dataset, JobRow.split, JobRow.llm)
    graded = sa.select(JobInput.input_key.label("texts"), JobRow.job_key.label("graded"), *labels)
    graded = graded.join(JobRow, JobRow.job_key == JobInput.job_key).where(JobRow.kind == "graded")
    imported = sa.select(JobRow.job_key.label("texts"), JobRow.job_key.label("graded"), *labels)
    return sa.union_all(graded, imported.where(JobRow.kind == "imported")).subquery()


def is_graded_for(graded: sa.Subquery, texts: Any, job: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a row of :func:`graded_jobs` graded texts for the data set and the LLM of a job."""
    return sa.and_(graded.c.texts == texts, graded.c.dataset == job.dataset, graded.c.llm == job.llm)


def _calibration_cell(connection: sa.Connection, row: dict[str, Any]) -> dict[str, Any]:
    if row["leaderboard"] == "calibration":
        return row
    same_names = [getattr(Cell, kind) == row[kind] for kind in ("prm", "calibrator") if row[kind] is not None]
    numbers = cell_numbers()
    same_names += [Cell.leaderboard == "calibration", Cell.llm == row["llm"], Cell.dataset == row["dataset"]]
    query = sa.select(Cell.__table__).join(numbers, numbers.c.cell_id == Cell.cell_id).where(*same_names)
    calibration_cell = connection.execute(query.order_by(numbers.c.number).limit(1)).mappings().one_or_none()
    return row if calibration_cell is None else dict(calibration_cell)
