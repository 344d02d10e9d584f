"""The questions and prefixes that two cells were both measured on, and the questions on which they differ most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from prmcal.db.queries.trajectories.prefix_columns import MEDIAN, PREFIX, counted, same_prefix, success_counts
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import (
    CalibratedReward,
    Cell,
    Job,
    JobInput,
    Question,
    QuestionResult,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["common_prefixes", "question_differences", "question_values"]


def question_values(source: Source, cell_id: str) -> pd.DataFrame:
    """Return the values of single questions of a scaling cell: question_id, metric and value."""
    columns = (QuestionResult.question_id, QuestionResult.metric, QuestionResult.value)
    query = sa.select(*columns).where(QuestionResult.cell_id == cell_id)
    return frame(source, query.order_by(QuestionResult.metric, QuestionResult.question_id))


def common_prefixes(source: Source, cell_a: str, cell_b: str) -> int | None:
    """Count the prefixes that two calibration cells were both measured on.

    Returns
    -------
    int or None
        None if the cells have different LLMs, and so different trajectories, or if the database has no rewards.
    """
    with connection_of(source) as connection:
        jobs_a, jobs_b = _input_jobs(connection, cell_a), _input_jobs(connection, cell_b)
        if "success" not in jobs_a or jobs_a["success"] != jobs_b.get("success"):
            return None
        first, second = _errors(cell_a, jobs_a), _errors(cell_b, jobs_b)
        both = first.join(second, same_prefix(first, second))
        count = connection.scalar(sa.select(sa.func.count()).select_from(both))
        return int(count) if count else None


def question_differences(source: Source, cell_a: str, cell_b: str, count: int = 5) -> pd.DataFrame:
    """Return the questions on which two cells of a leaderboard and data set differ most.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    cell_a, cell_b : str
        Two finished cells.
    count : int
        Largest number of questions. Questions without a difference are left out.

    Returns
    -------
    DataFrame
        question_id, question_level, question (its text), value_a, value_b and difference (A - B), the largest absolute
        difference first. On the calibration leaderboard, the value is the squared error of the point estimate, averaged
        over the prefixes of the question. On the scaling leaderboard, it is the accuracy. The frame is empty if the
        database does not have these values.
    """
    with connection_of(source) as connection:
        first, second = _by_question(connection, cell_a), _by_question(connection, cell_b)
        difference = (first.c.value - second.c.value).label("difference")
        query = (
            sa.select(
                first.c.question_id,
                Question.level.label("question_level"),
                Question.text.label("question"),
                first.c.value.label("value_a"),
                second.c.value.label("value_b"),
                difference,
            )
            .join(second, second.c.question_id == first.c.question_id)
            .join(Cell, Cell.cell_id == cell_a)
            .join(Job, Job.job_key == Cell.job_key)
            .outerjoin(
                Question,
                sa.and_(
                    Question.dataset == Cell.dataset,
                    Question.split == Job.split,
                    Question.question_id == first.c.question_id,
                ),
            )
            .where(sa.func.abs(difference.element) > 0)
            .order_by(sa.func.abs(difference.element).desc(), first.c.question_id)
            .limit(count)
        )
        return frame(connection, query)


def _by_question(connection: sa.Connection, cell_id: str) -> sa.Subquery:
    """Select question_id and the value by which the questions of a cell are compared."""
    jobs = _input_jobs(connection, cell_id)
    if "success" in jobs:
        errors = _errors(cell_id, jobs)
        mean = sa.func.avg(errors.c.squared_error).label("value")
        return sa.select(errors.c.question_id, mean).group_by(errors.c.question_id).subquery()
    return (
        sa.select(QuestionResult.question_id, QuestionResult.value)
        .where(QuestionResult.cell_id == cell_id, QuestionResult.metric == "accuracy")
        .subquery()
    )


def _errors(cell_id: str, jobs: dict[str, str]) -> sa.Subquery:
    """Select the squared error of the point estimate of every prefix that the metrics of a cell count."""
    counts = success_counts([jobs["success"]]).subquery()
    error = CalibratedReward.reward - counts.c.successes * 1.0 / counts.c.follow_ups
    return (
        sa.select(*(counts.c[name] for name in PREFIX), (error * error).label("squared_error"))
        .join(CalibratedReward, same_prefix(CalibratedReward, counts))
        .where(
            CalibratedReward.job_key == jobs["calibrated"],
            CalibratedReward.level == MEDIAN,
            counted(counts.c.terminal, Cell.cell_id == cell_id),
        )
        .subquery()
    )


def _input_jobs(connection: sa.Connection, cell_id: str) -> dict[str, str]:
    """Return the keys of the jobs that the measuring job of a cell reads, by kind."""
    query = (
        sa.select(Job.kind, Job.job_key)
        .join(JobInput, JobInput.input_key == Job.job_key)
        .join(Cell, Cell.job_key == JobInput.job_key)
        .where(Cell.cell_id == cell_id)
    )
    return {row.kind: row.job_key for row in connection.execute(query)}
