"""The provenance of a cell: its jobs with seeds and versions, and a few of its trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.cell_names import numbered, unknown_cell
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import (
    Cell,
    Comparison,
    Dataset,
    Job,
    JobInput,
    Plugin,
    Question,
    Result,
    Trajectory,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CellDetail", "cell", "cell_row", "sampled"]


@dataclass(frozen=True)
class CellDetail:
    """A cell with its results and its provenance.

    Attributes
    ----------
    cell : dict
        The row of the cell in the table ``cells``.
    results : DataFrame
        Its values over all questions and by difficulty.
    comparisons : DataFrame
        Its paired comparisons with other cells.
    jobs : DataFrame
        The job that measured it and all jobs that this job depends on, with the columns of the table ``jobs``. The
        column ``depth`` is the distance from the cell.
    plugins, datasets : DataFrame
        Its plugins and data sets, with versions and hashes.
    samples : DataFrame
        A few of the trajectories that it was measured on.
    """

    cell: dict[str, Any]
    results: pd.DataFrame
    comparisons: pd.DataFrame
    jobs: pd.DataFrame
    plugins: pd.DataFrame
    datasets: pd.DataFrame
    samples: pd.DataFrame


def cell(source: Source, cell_id: str, *, samples: int = 3) -> CellDetail:
    """Return a cell with its provenance and its first `samples` trajectories.

    Raises
    ------
    UnknownCellError
        If there is no such cell. The message has similar identifiers.
    """
    with connection_of(source) as connection:
        row = cell_row(connection, cell_id)
        jobs = _upstream_jobs(connection, row)
        names = [
            (kind, row[kind])
            for kind in ("llm", "prm", "calibrator", "dataset", "strategy")
            if row[kind] is not None
        ]
        used = sa.tuple_(Plugin.kind, Plugin.name).in_(names)
        datasets = sa.tuple_(Dataset.name, Dataset.split).in_(
            list(jobs[["dataset", "split"]].dropna().drop_duplicates().itertuples(index=False, name=None))
        )
        either = sa.or_(Comparison.cell_a == cell_id, Comparison.cell_b == cell_id)
        return CellDetail(
            cell=row,
            results=frame(
                connection,
                sa.select(Result)
                .where(Result.cell_id == cell_id)
                .order_by(Result.metric, Result.question_level.nulls_first()),
            ).drop(columns="cell_id"),
            comparisons=frame(
                connection,
                sa.select(Comparison)
                .where(either)
                .order_by(Comparison.metric, Comparison.cell_a, Comparison.cell_b),
            ),
            jobs=jobs,
            plugins=frame(connection, sa.select(Plugin).where(used).order_by(Plugin.kind, Plugin.name)),
            datasets=frame(
                connection, sa.select(Dataset).where(datasets).order_by(Dataset.name, Dataset.split)
            ),
            samples=frame(connection, sampled(list(_measured(jobs, row)["job_key"])).limit(samples)),
        )


def cell_row(connection: sa.Connection, cell_id: str) -> dict[str, Any]:
    """Return the row of a cell in the table ``cells``.

    Raises
    ------
    UnknownCellError
        If there is no such cell. The message has similar identifiers.
    """
    row = (
        connection.execute(sa.select(Cell.__table__).where(Cell.cell_id == cell_id)).mappings().one_or_none()
    )
    if row is None:
        raise unknown_cell(cell_id, numbered(connection))
    return dict(row)


def _upstream_jobs(connection: sa.Connection, row: dict[str, Any]) -> pd.DataFrame:
    start = sa.select(Job.job_key, sa.literal(0).label("depth")).where(Job.job_key == row["job_key"])
    upstream = start.cte("upstream", recursive=True)
    edges = sa.select(JobInput.input_key, upstream.c.depth + 1).join(
        upstream, JobInput.job_key == upstream.c.job_key
    )
    upstream = upstream.union(edges)
    depth = sa.func.min(upstream.c.depth).label("depth")
    nearest = sa.select(upstream.c.job_key, depth).group_by(upstream.c.job_key).subquery()
    return frame(
        connection,
        sa.select(nearest.c.depth, Job.__table__)
        .join(nearest, nearest.c.job_key == Job.job_key)
        .order_by(nearest.c.depth, Job.kind, Job.job_key),
    )


def _measured(jobs: pd.DataFrame, row: dict[str, Any]) -> pd.DataFrame:
    """Keep the jobs of a cell's own LLM on its test questions. The jobs of its calibrator have other questions."""
    same = (jobs["dataset"] == row["dataset"]) & (jobs["llm"] == row["llm"])
    split = jobs.loc[jobs["job_key"] == row["job_key"], "split"]
    if len(split) and split.iloc[0] is not None:
        same &= jobs["split"] == split.iloc[0]
    return jobs[same]


def sampled(job_keys: Sequence[str]) -> sa.Select[*tuple[Any, ...]]:
    """Select the trajectories of some jobs with their questions, ordered by question and index."""
    return (
        sa.select(
            Trajectory.question_id,
            Question.text.label("question"),
            Question.answer.label("reference"),
            Question.level.label("question_level"),
            Trajectory.trajectory,
            Trajectory.text,
            Trajectory.steps,
            Trajectory.tokens,
            Trajectory.finish_reason,
            Trajectory.answer,
            Trajectory.verdict,
            Trajectory.correct,
        )
        .join(Job, Job.job_key == Trajectory.job_key)
        .outerjoin(
            Question,
            sa.and_(
                Question.dataset == Job.dataset,
                Question.split == Job.split,
                Question.question_id == Trajectory.question_id,
            ),
        )
        .where(Trajectory.job_key.in_(job_keys))
        .order_by(Trajectory.question_id, Trajectory.trajectory, Trajectory.job_key)
    )
