"""The jobs of a run, page by page, and its progress, also while it writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.run_folder import finished_artifacts
from prmcal.db.tables import Job

if TYPE_CHECKING:
    import pandas as pd


_COLUMNS = (
    *(
        "kind",
        "llm",
        "prm",
        "calibrator",
        "dataset",
        "split",
        "job_key",
        "seed",
        "status",
        "shards",
        "seconds",
    ),
    *("samples", "generated_tokens", "scored_tokens", "reason"),
)


def job_page(
    source: Source, *, kind: str | None = None, limit: int = 25, offset: int = 0
) -> tuple[int, pd.DataFrame]:
    """Return a page of the jobs with their keys, seeds, statuses and costs, and the number of all jobs.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    kind : str, optional
        Keep the jobs of this kind.
    limit, offset : int
        Number of jobs to return, and to skip before them. Jobs are sorted by kind and by the names of their plugins.
    """
    kept = [] if kind is None else [Job.kind == kind]
    order = (Job.kind, Job.llm, Job.prm, Job.calibrator, Job.dataset, Job.job_key)
    columns: list[Any] = [getattr(Job, name) for name in _COLUMNS]
    with connection_of(source) as connection:
        total = connection.scalar(sa.select(sa.func.count()).select_from(Job).where(*kept)) or 0
        query = sa.select(*columns).where(*kept).order_by(*order).limit(limit).offset(offset)
        return total, frame(connection, query)


def planned_shards(source: Source) -> pd.DataFrame:
    """Return the shards of every kind of job in the database.

    Returns
    -------
    DataFrame
        Columns kind, jobs, failed (number of failed or blocked jobs), shard_keys (list of keys) and seconds_per_shard
        (mean over finished jobs; missing if there is none), sorted by kind.
    """
    import pandas as pd

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


def _keys(planned: pd.Series[Any]) -> list[str]:
    return sorted({shard["key"] for shards in planned if shards for shard in shards})


def progress(planned: pd.DataFrame, directory: Path) -> pd.DataFrame:
    """Return the progress of a run, from its plan and the artifacts in its folder.

    Parameters
    ----------
    planned : DataFrame
        As :func:`planned_shards` returns it.
    directory : Path
        Output folder of the run.

    Returns
    -------
    DataFrame
        Columns kind, jobs, failed, shards, done (number of finished shards) and seconds_left (single-worker seconds;
        missing if shards are left and no job of the kind is finished).
    """
    shards = planned["shard_keys"].map(len)
    done = [
        len(finished_artifacts(directory, kind).intersection(keys))
        for kind, keys in zip(planned["kind"], planned["shard_keys"], strict=True)
    ]
    left = shards - done
    seconds = (left * planned["seconds_per_shard"].astype(float)).where(left > 0, 0.0)
    return planned[["kind", "jobs", "failed"]].assign(shards=shards, done=done, seconds_left=seconds)
