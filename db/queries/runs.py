"""The jobs of a run and their progress, also while the run writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import sqlalchemy as sa

from prmcal.db.queries.cells import cell_row, numbered_cells
from prmcal.db.reader import Source, frame
from prmcal.db.run_folder import finished_artifacts
from prmcal.db.tables import Cell, JobInput, JobRow


def planned_shards(source: Source) -> pd.DataFrame:
    """Return the shards of every kind of job in the database, sorted by kind.

    The columns are kind, jobs, failed (number of failed or blocked jobs), shard_keys (list of keys) and
    seconds_per_shard (mean over finished jobs; missing if there is none).
    """
    done, keys = JobRow.status == "done", sa.func.json_extract_string(JobRow.parameters, "$.shards[*].key")
    query = sa.select(
        JobRow.kind,
        sa.func.count().label("jobs"),
        sa.func.count().filter(JobRow.status.in_(["failed", "blocked"])).label("failed"),
        sa.func.list_sort(sa.func.list_distinct(sa.func.flatten(sa.func.list(keys)))).label("shard_keys"),
        (sa.func.sum(JobRow.seconds).filter(done) / sa.func.sum(JobRow.shards).filter(done)).label("seconds_per_shard"),
    )
    return frame(source, query.group_by(JobRow.kind).order_by(JobRow.kind))


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
    """The keys of the jobs that computed the rows behind a calibration cell. A key is empty if there is no such job."""

    graded: str
    success: str
    score: str
    calibrated: str


def jobs_of(connection: sa.Connection, cell_id: str) -> CellJobs:
    """Return the jobs behind a cell of any leaderboard. Raise UnknownCellError as :func:`cell_row`.

    A scaling cell depends on the rewards of the calibration cell with the same LLM, PRM, calibrator and data set. If it
    has no PRM or no calibrator, the first of the grid is used instead.
    """
    row = cell_row(connection, cell_id)
    same_names = [getattr(Cell, kind) == row[kind] for kind in ("llm", "prm", "calibrator", "dataset") if row[kind]]
    cells = numbered_cells("job_key").where(Cell.leaderboard == "calibration", *same_names)
    job_key = next((cell.job_key for cell in connection.execute(cells.limit(1))), row["job_key"])
    read_by_cell = input_jobs(connection, job_key)
    calibrated, success = read_by_cell.get("calibrated", ""), read_by_cell.get("success", "")
    below = input_jobs(connection, calibrated, success)
    imported = read_by_cell.get("imported", "")
    return CellJobs(below.get("graded", imported), success or imported, below.get("score", ""), calibrated)


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
