"""The questions, trajectories and prefixes of a cell, with their texts, rewards and success rates."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import sqlalchemy as sa

from prmcal.db.queries.cells import sampled
from prmcal.db.queries.runs import CellJobs, graded_jobs, is_graded_for, jobs_of
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import CalibratedReward, Cell, Job, JobInput, Question, Reward, SuccessCount, Trajectory

PREFIX = ("question_id", "trajectory", "step")
"""The columns that identify a prefix within a job."""

MEDIAN = 0.5
"""The quantile level beta of the point estimate."""


def same_prefix(first: Any, second: Any) -> sa.ColumnElement[bool]:
    """Return the condition that rows of two tables or subqueries are about the same prefix."""
    return sa.and_(*(_column(first, name) == _column(second, name) for name in PREFIX))


def counted(terminal: sa.ColumnElement[bool], *cell: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition that the metrics of a calibration cell count a prefix.

    The column `terminal` has whether the prefix contains its final answer. `cell` selects the cell in the table
    ``cells``.
    """
    chosen = Job.parameters["terminal"].as_string() == "true"
    measured = (Cell.leaderboard == "calibration", Job.job_key == Cell.job_key, chosen)
    return sa.or_(~terminal, sa.exists().where(*measured, *cell))


def success_counts(job_keys: Sequence[str]) -> sa.Select[tuple[str, int, int, int, int, bool]]:
    """Select the success counts of all prefixes of some jobs, added up over the rows of the table.

    The columns are question_id, trajectory, step, successes, follow_ups and terminal. A prefix has one row in the table
    for each shard that drew follow-ups of it.
    """
    prefix = (SuccessCount.question_id, SuccessCount.trajectory, SuccessCount.step)
    return (
        sa.select(
            *prefix,
            sa.cast(sa.func.sum(SuccessCount.successes), sa.Integer).label("successes"),
            sa.cast(sa.func.sum(SuccessCount.follow_ups), sa.Integer).label("follow_ups"),
            sa.func.bool_or(SuccessCount.terminal).label("terminal"),
        )
        .where(SuccessCount.job_key.in_(job_keys))
        .group_by(*prefix)
    )


def _column(table: Any, name: str) -> Any:
    return table.c[name] if isinstance(table, sa.FromClause) else getattr(table, name)


def questions(source: Source, cell_id: str) -> pd.DataFrame:
    """Return the questions that a cell was measured on, sorted by identifier.

    The columns are question_id, text, subject, question_level, trajectories, correct (number of correct trajectories),
    pass_at_1, prefixes, success, reward_error and calibrated_error. The last four are about the prefixes that the
    metrics of the cell count: their number, their mean success rate, and the mean of reward minus success rate, before
    and after calibration. Errors above 0 are overestimates. Raises an UnknownCellError if there is no such cell.
    """
    with connection_of(source) as connection:
        jobs = jobs_of(connection, cell_id)
        graded, errors = _graded(jobs), _errors_by_question(jobs)
        query = (
            sa.select(
                Question.question_id,
                Question.text,
                Question.subject,
                Question.level.label("question_level"),
                *graded.c[1:],
                *errors.c[1:],
            )
            .outerjoin(graded, graded.c.question_id == Question.question_id)
            .outerjoin(errors, errors.c.question_id == Question.question_id)
            .where(Question.dataset == jobs.dataset, Question.split == jobs.split)
            .order_by(Question.question_id)
        )
        return frame(connection, query)


def worst_prefixes(
    source: Source,
    cell_id: str,
    *,
    column: Literal["reward", "calibrated_reward"] = "reward",
    over: bool = True,
    limit: int = 25,
) -> pd.DataFrame:
    """Return the `limit` prefixes whose rewards most exceed the success rates, or without `over` most fall below them.

    The reward that is compared is that of `column`. The columns are question_id, trajectory, step, successes,
    follow_ups, terminal, reward, calibrated_reward (the median; null if there is none) and error. A prefix that several
    trajectories share has one row.
    """
    with connection_of(source) as connection:
        judged = _judged(jobs_of(connection, cell_id))
        # Trajectories with the same first steps share prefixes; all share the question alone.
        shared = (*(judged.c[name] for name in ("question_id", "step", "successes", "follow_ups")),)
        alike = sa.func.round(judged.c[column] * 1_000_000)
        nth = sa.func.row_number().over(partition_by=[*shared, alike], order_by=judged.c.trajectory)
        error = (judged.c[column] - judged.c.success).label("error")
        shown = [each for each in judged.c if each.key != "success"]
        each = sa.select(*shown, error, nth.label("nth")).where(error.is_not(None)).subquery()
        order = each.c.error.desc() if over else each.c.error.asc()
        names = [column for column in each.c if column.key != "nth"]
        query = sa.select(*names).where(each.c.nth == 1).order_by(order, *(each.c[name] for name in PREFIX))
        return frame(connection, query.limit(limit))


def trajectories(
    source: Source, cell_id: str, question_id: str | None = None, *, limit: int | None = None
) -> pd.DataFrame:
    """Return the trajectories that a cell was measured on, with their questions.

    There are at most `limit`, or those of one question. The columns are question_id, question, reference (the reference
    answer), question_level, trajectory, text, steps, tokens, finish_reason, answer, verdict and correct. Raises an
    UnknownCellError if there is no such cell.
    """
    with connection_of(source) as connection:
        query = sampled([jobs_of(connection, cell_id).graded])
        if question_id is not None:
            query = query.where(Trajectory.question_id == question_id)
        return frame(connection, query.limit(limit))


def prefixes(source: Source, cell_id: str, question_id: str) -> pd.DataFrame:
    """Return every scored prefix of one question, with one row per level beta.

    The columns are trajectory, step, logit, reward, over_long, successes, follow_ups, terminal (null if there are no
    follow-ups), level and calibrated_reward (null if the cell has no calibrator). Raises an UnknownCellError if there
    is no such cell.
    """
    with connection_of(source) as connection:
        jobs = jobs_of(connection, cell_id)
        counts = success_counts([jobs.success]).where(SuccessCount.question_id == question_id).subquery()
        calibrated = (
            sa.select(CalibratedReward)
            .where(CalibratedReward.job_key == jobs.calibrated, CalibratedReward.question_id == question_id)
            .subquery()
        )
        query = (
            sa.select(
                *Reward.columns("trajectory", "step", "logit", "reward", "over_long"),
                *(counts.c[name] for name in ("successes", "follow_ups", "terminal")),
                calibrated.c.level,
                calibrated.c.reward.label("calibrated_reward"),
            )
            .outerjoin(counts, same_prefix(counts, Reward))
            .outerjoin(calibrated, same_prefix(calibrated, Reward))
            .where(Reward.job_key == jobs.score, Reward.question_id == question_id)
            .order_by(Reward.trajectory, Reward.step, calibrated.c.level)
        )
        return frame(connection, query)


def scored_places(source: Source) -> pd.DataFrame:
    """Return what a run has scored and drawn follow-ups of: llm, prm, dataset and split, and the keys of the jobs.

    The columns of the keys are score, graded and success.
    """
    success, below, of_success = sa.orm.aliased(Job), sa.orm.aliased(JobInput), sa.orm.aliased(JobInput)
    graded = graded_jobs()
    query = (
        sa.select(
            *(Job.llm, Job.prm, Job.dataset, Job.split),
            Job.job_key.label("score"),
            graded.c.graded,
            success.job_key.label("success"),
        )
        .join(below, below.job_key == Job.job_key)
        .join(graded, is_graded_for(graded, below.input_key, Job))
        .join(of_success, of_success.input_key == graded.c.graded)
        .join(success, success.job_key == of_success.job_key)
        .where(Job.kind == "score", Job.status == "done", success.kind == "success", success.status == "done")
        .order_by(Job.llm, Job.prm, Job.dataset, Job.split, Job.job_key, success.job_key)
    )
    return frame(source, query)


def scored_prefixes(source: Source, place: Mapping[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the trajectories and the prefixes of a row of :func:`scored_places`.

    The trajectories are as :func:`trajectories` returns them. The prefixes are all that have a score: question_id,
    trajectory, step, logit (null if the prefix is too long), and successes and follow_ups (null without follow-ups, and
    for prefixes with a final answer that no metric of the run counts).
    """
    counts = success_counts([place["success"]]).subquery()
    cell = (Cell.llm == place["llm"], Cell.prm == place["prm"], Cell.dataset == place["dataset"])
    measured = sa.and_(same_prefix(counts, Reward), counted(counts.c.terminal, *cell))
    query = (
        sa.select(*Reward.columns(*PREFIX, "logit"), counts.c.successes, counts.c.follow_ups)
        .outerjoin(counts, measured)
        .where(Reward.job_key == place["score"])
        .order_by(Reward.question_id, Reward.trajectory, Reward.step)
    )
    with connection_of(source) as connection:
        return frame(connection, sampled([place["graded"]])), frame(connection, query)


def _graded(jobs: CellJobs) -> sa.Subquery:
    right = sa.cast(Trajectory.correct, sa.Integer)
    return (
        sa.select(
            Trajectory.question_id,
            sa.func.count().label("trajectories"),
            sa.cast(sa.func.sum(right), sa.Integer).label("correct"),
            sa.func.avg(right).label("pass_at_1"),
        )
        .where(Trajectory.job_key == jobs.graded)
        .group_by(Trajectory.question_id)
        .subquery()
    )


def _errors_by_question(jobs: CellJobs) -> sa.Subquery:
    judged = _judged(jobs)
    return (
        sa.select(
            judged.c.question_id,
            sa.func.count().label("prefixes"),
            sa.func.avg(judged.c.success).label("success"),
            sa.func.avg(judged.c.reward - judged.c.success).label("reward_error"),
            sa.func.avg(judged.c.calibrated_reward - judged.c.success).label("calibrated_error"),
        )
        .where(counted(judged.c.terminal, Cell.cell_id == jobs.cell["cell_id"]))
        .group_by(judged.c.question_id)
        .subquery()
    )


def _judged(jobs: CellJobs) -> sa.Subquery:
    """Select all prefixes with a success rate and a reward, and their median calibrated reward."""
    counts = success_counts([jobs.success]).subquery()
    median = (
        sa.select(CalibratedReward)
        .where(CalibratedReward.job_key == jobs.calibrated, CalibratedReward.level == MEDIAN)
        .subquery()
    )
    rate = sa.cast(counts.c.successes, sa.Double) / counts.c.follow_ups
    return (
        sa.select(*counts.c, Reward.reward, median.c.reward.label("calibrated_reward"), rate.label("success"))
        .join(Reward, same_prefix(counts, Reward))
        .outerjoin(median, same_prefix(median, Reward))
        .where(Reward.job_key == jobs.score, Reward.reward.is_not(None))
        .subquery()
    )
