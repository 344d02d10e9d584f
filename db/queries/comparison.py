"""Two cells side by side: their stored comparison, what they were measured on, and where they differ most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from prmcal.db.queries.success import success_counts
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import (
    CalibratedReward,
    Cell,
    Comparison,
    Job,
    JobInput,
    Question,
    QuestionResult,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["common_prefixes", "question_differences", "question_values", "stored_comparisons"]

_PREFIX = ("question_id", "trajectory", "step")
_MEDIAN = 0.5


def stored_comparisons(source: Source, cell_a: str, cell_b: str) -> pd.DataFrame:
    """Return the comparisons of two cells that compete on a leaderboard; none for cells of different groups.

    Returns
    -------
    DataFrame
        One row per metric: metric, difference (A - B), low, high, p_value, p_adjusted, questions, pairs (how many
        the p value was adjusted for).
    """
    first, second = aliased(Cell), aliased(Cell)
    group = (first.leaderboard, first.llm, first.prm, first.dataset, Comparison.metric)
    made = sa.func.nullif(Comparison.p_value, float("nan"))
    all_pairs = (
        sa.select(Comparison.__table__, sa.func.count(made).over(partition_by=group).label("pairs"))
        .join(first, sa.and_(first.cell_id == Comparison.cell_a, first.status == "done"))
        .join(second, sa.and_(second.cell_id == Comparison.cell_b, second.status == "done"))
        .where(Comparison.cell_a != Comparison.cell_b)
        .subquery()
    )
    pair = all_pairs.c
    turned = pair.cell_a == cell_b

    def signed(straight: sa.ColumnElement[float], reverse: sa.ColumnElement[float]) -> sa.Label[float]:
        return sa.case((turned, -reverse), else_=straight).label(straight.key)

    query = sa.select(
        pair.metric,
        signed(pair.difference, pair.difference),
        signed(pair.low, pair.high),
        signed(pair.high, pair.low),
        pair.p_value,
        pair.p_adjusted,
        pair.questions,
        pair.pairs,
    )
    both = [cell_a, cell_b]
    return frame(source, query.where(pair.cell_a.in_(both), pair.cell_b.in_(both)).order_by(pair.metric))


def question_values(source: Source, cell_id: str) -> pd.DataFrame:
    """Return a scaling cell's values of single questions: question_id, metric, value, ordered by these."""
    columns = (QuestionResult.question_id, QuestionResult.metric, QuestionResult.value)
    query = sa.select(*columns).where(QuestionResult.cell_id == cell_id)
    return frame(source, query.order_by(QuestionResult.metric, QuestionResult.question_id))


def common_prefixes(source: Source, cell_a: str, cell_b: str) -> int | None:
    """Count the prefixes that two calibration cells were both measured on.

    Returns
    -------
    int or None
        None if their LLMs differ, since each has trajectories of its own, or if the database holds no rewards.
    """
    with connection_of(source) as connection:
        jobs_a, jobs_b = _input_jobs(connection, cell_a), _input_jobs(connection, cell_b)
        if "success" not in jobs_a or jobs_a["success"] != jobs_b.get("success"):
            return None
        first, second = _errors(jobs_a), _errors(jobs_b)
        same = sa.and_(*(first.c[name] == second.c[name] for name in _PREFIX))
        count = connection.scalar(sa.select(sa.func.count()).select_from(first.join(second, same)))
        return int(count) if count else None


def question_differences(source: Source, cell_a: str, cell_b: str, count: int = 5) -> pd.DataFrame:
    """Return the questions on which two cells of one leaderboard and data set differ most.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    cell_a, cell_b : str
        Two finished cells.
    count : int
        How many questions at most. Those without a difference are left out.

    Returns
    -------
    DataFrame
        question_id, question_level, question (its text), value_a, value_b, difference (A - B); the largest first.
        The value is the squared error of the point estimate, averaged over the question's prefixes, on the
        calibration leaderboard; accuracy on the scaling leaderboard. Empty if the database does not hold it.
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
    """What a cell's questions are compared by: question_id and value."""
    jobs = _input_jobs(connection, cell_id)
    if "success" in jobs:
        errors = _errors(jobs)
        mean = sa.func.avg(errors.c.squared_error).label("value")
        return sa.select(errors.c.question_id, mean).group_by(errors.c.question_id).subquery()
    return (
        sa.select(QuestionResult.question_id, QuestionResult.value)
        .where(QuestionResult.cell_id == cell_id, QuestionResult.metric == "accuracy")
        .subquery()
    )


def _errors(jobs: dict[str, str]) -> sa.Subquery:
    """The squared error of the point estimate of every prefix with follow-ups."""
    counts = success_counts([jobs["success"]]).subquery()
    error = CalibratedReward.reward - counts.c.successes * 1.0 / counts.c.follow_ups
    return (
        sa.select(*(counts.c[name] for name in _PREFIX), (error * error).label("squared_error"))
        .join(
            CalibratedReward,
            sa.and_(*(getattr(CalibratedReward, name) == counts.c[name] for name in _PREFIX)),
        )
        .where(CalibratedReward.job_key == jobs["calibrated"], CalibratedReward.level == _MEDIAN)
        .subquery()
    )


def _input_jobs(connection: sa.Connection, cell_id: str) -> dict[str, str]:
    """Keys of the jobs that a cell's measuring job reads, by kind."""
    query = (
        sa.select(Job.kind, Job.job_key)
        .join(JobInput, JobInput.input_key == Job.job_key)
        .join(Cell, Cell.job_key == JobInput.job_key)
        .where(Cell.cell_id == cell_id)
    )
    return {row.kind: row.job_key for row in connection.execute(query)}
