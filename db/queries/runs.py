"""What was planned and how far it is: jobs a page at a time, and the progress of a run, also while it writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.run_folder import finished_artifacts
from prmcal.db.tables import Job

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["job_page", "planned_shards", "progress"]

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
    """Return some of the jobs with their keys, seeds, states and costs, and how many there are in all.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    kind : str, optional
        Jobs of this kind only.
    limit, offset : int
        How many, and after how many; by kind, then by what they are about.
    """
    kept = [] if kind is None else [Job.kind == kind]
    order = (Job.kind, Job.llm, Job.prm, Job.calibrator, Job.dataset, Job.job_key)
    columns: list[Any] = [getattr(Job, name) for name in _COLUMNS]
    with connection_of(source) as connection:
        total = connection.scalar(sa.select(sa.func.count()).select_from(Job).where(*kept)) or 0
        query = sa.select(*columns).where(*kept).order_by(*order).limit(limit).offset(offset)
        return total, frame(connection, query)


def planned_shards(source: Source) -> pd.DataFrame:
    """Return the shards of every kind of job that the database knows of.

    Returns
    -------
    DataFrame
        Columns kind, jobs, failed (jobs that failed or are blocked), shard_keys (list of the shards' keys),
        seconds_per_shard (mean over finished jobs; missing where there is none), in alphabetical order.
    """
    done = Job.status == "done"
    seconds = sa.func.sum(sa.case((done, Job.seconds), else_=0.0))
    shards = sa.func.sum(sa.case((done, Job.shards), else_=0))
    keys = sa.func.json_extract_string(Job.parameters, "$.shards[*].key")
    query = (
        sa.select(
            Job.kind,
            sa.func.count().label("jobs"),
            sa.func.count().filter(Job.status.in_(["failed", "blocked"])).label("failed"),
            sa.func.list_distinct(sa.func.flatten(sa.func.list(keys))).label("shard_keys"),
            (seconds / sa.func.nullif(shards, 0)).label("seconds_per_shard"),
        )
        .group_by(Job.kind)
        .order_by(Job.kind)
    )
    with connection_of(source) as connection:
        return frame(connection, query)


def progress(planned: pd.DataFrame, directory: Path) -> pd.DataFrame:
    """Return how far a run is, from its plan and from the artifacts that are there now.

    Parameters
    ----------
    planned : DataFrame
        As :func:`planned_shards` returns it.
    directory : Path
        Output folder of the run.

    Returns
    -------
    DataFrame
        Columns kind, jobs, failed, shards, done (shards), seconds_left (of one worker; missing where nothing of the
        kind is finished and something is left).
    """
    shards = planned["shard_keys"].map(len)
    done = [
        len(finished_artifacts(directory, kind).intersection(keys))
        for kind, keys in zip(planned["kind"], planned["shard_keys"], strict=True)
    ]
    left = shards - done
    seconds = (left * planned["seconds_per_shard"].astype(float)).where(left > 0, 0.0)
    return planned[["kind", "jobs", "failed"]].assign(shards=shards, done=done, seconds_left=seconds)
