"""The questions, trajectories and prefixes of a cell, with their texts, rewards and success rates."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import sqlalchemy as sa

from prmcal.db.queries.cells import of_job, sampled
from prmcal.db.queries.runs import CellJobs, graded_jobs, is_graded_for, jobs_of
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import CalibratedReward, Cell, JobInput, JobRow, QuestionRow, Reward, SuccessCount, TrajectoryRow

PREFIX = ("question_id", "trajectory", "step")
"""The columns that identify a prefix within a job."""

MEDIAN = 0.5
"""The quantile level beta of the point estimate."""


def same_prefix(first: Any, second: Any) -> sa.ColumnElement[bool]:
    """Return the condition that rows of two tables or subqueries are about the same prefix."""
    return sa.and_(*(_column(first, name) == _column(second, name) for name in PREFIX))


def is_counted(terminal: sa.ColumnElement[bool], *cell: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition that the metrics of a calibration cell count a prefix.

    The column `terminal` has whether the prefix contains its final answer. `cell` selects the cell in the table
    ``cells``.
    """
    counts_terminal = sa.func.json_extract_string(JobRow.parameters, "$.terminal") == "true"
    measuring = (Cell.leaderboard == "calibration", JobRow.job_key == Cell.job_key, counts_terminal)
    return sa.or_(~terminal, sa.exists().where(*measuring, *cell))


def success_counts(job_keys: Sequence[str]) -> sa.Select[tuple[str, int, int, int, int, bool]]:
    """Select the success counts of all prefixes of some jobs, added up over the rows of the table.

    The columns are question_id, trajectory, step, successes, follow_ups and terminal. A prefix has one row in the table
    for each shard with follow-ups of it.
    """
    prefix = (SuccessCount.question_id, SuccessCount.trajectory, SuccessCount.step)
    successes = sa.cast(sa.func.sum(SuccessCount.successes), sa.Integer).label("successes")
    follow_ups = sa.cast(sa.func.sum(SuccessCount.follow_ups), sa.Integer).label("follow_ups")
    counts = sa.select(*prefix, successes, follow_ups, sa.func.bool_or(SuccessCount.terminal).label("terminal"))
    return counts.where(SuccessCount.job_key.in_(job_keys)).group_by(*prefix)


def _column(table: Any, name: str) -> Any:
    return table.c[name] if isinstance(table, sa.FromClause) else getattr(table, name)


def solutions(source: Source, cell_id: str) -> pd.DataFrame:
    """Return the trajectories behind a cell. Trajectories that calibration repairs most come first.

    The columns are question_id, trajectory, text (of the question), subject, question_level, correct, prefixes (their
    number), success, reward_error and calibrated_error (means of the success rate, and of reward minus success rate
    before and after calibration; errors above 0 are overestimates), and before, after and repaired: the mean distance
    of rewards from success rates before and after calibration, and by how much it falls. Columns that need calibrated
    rewards are null without them. Raises an UnknownCellError if there is no such cell.
    """
    with connection_of(source) as connection:
        jobs = jobs_of(connection, cell_id)
        judged = judged_prefixes(jobs)
        signed = [column - judged.c.success for column in (judged.c.reward, judged.c.calibrated_reward)]
        means = [judged.c.success, *signed, *(sa.func.abs(error) for error in signed)]
        names = ("success", "reward_error", "calibrated_error", "before", "after")
        errors = (
            sa.select(
                *(judged.c.question_id, judged.c.trajectory, sa.func.count().label("prefixes")),
                *(sa.func.avg(mean).label(name) for mean, name in zip(means, names, strict=True)),
            )
            .where(is_counted(judged.c.terminal, Cell.cell_id == cell_id))
            .group_by(judged.c.question_id, judged.c.trajectory)
            .subquery()
        )
        repaired = (errors.c.before - errors.c.after).label("repaired")
        same_trajectory = (
            TrajectoryRow.question_id == errors.c.question_id,
            TrajectoryRow.trajectory == errors.c.trajectory,
        )
        query = (
            sa.select(
                *errors.c[:2],
                *QuestionRow.columns("text", "subject"),
                QuestionRow.level.label("question_level"),
                TrajectoryRow.correct,
                *errors.c[2:],
                repaired,
            )
            .join(TrajectoryRow, sa.and_(TrajectoryRow.job_key == jobs.graded, *same_trajectory))
            .join(JobRow, JobRow.job_key == TrajectoryRow.job_key)
            .outerjoin(QuestionRow, of_job(errors.c.question_id))
            .order_by(repaired.element.desc().nulls_last(), *errors.c[:2])
        )
        return frame(connection, query)


def trajectories(
    source: Source, cell_id: str, question_id: str | None = None, *, limit: int | None = None
) -> pd.DataFrame:
    """Return the trajectories that a cell was measured on, with their questions.

    There are at most `limit`, or only trajectories of one question. The columns are question_id, question, reference
    (the reference answer), question_level, trajectory, text, steps, tokens, finish_reason, answer, verdict and correct.
    Raises an UnknownCellError if there is no such cell.
    """
    with connection_of(source) as connection:
        query = sampled([jobs_of(connection, cell_id).graded])
        if question_id is not None:
            query = query.where(TrajectoryRow.question_id == question_id)
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
        of_job = CalibratedReward.job_key == jobs.calibrated
        calibrated = sa.select(CalibratedReward).where(of_job, CalibratedReward.question_id == question_id).subquery()
        scores = Reward.columns("trajectory", "step", "logit", "reward", "over_long")
        success = [counts.c[name] for name in ("successes", "follow_ups", "terminal")]
        query = sa.select(*scores, *success, calibrated.c.level, calibrated.c.reward.label("calibrated_reward"))
        query = query.outerjoin(counts, same_prefix(counts, Reward))
        query = query.outerjoin(calibrated, same_prefix(calibrated, Reward))
        query = query.where(Reward.job_key == jobs.score, Reward.question_id == question_id)
        return frame(connection, query.order_by(Reward.trajectory, Reward.step, calibrated.c.level))


def scored_settings(source: Source) -> pd.DataFrame:
    """Return the settings with scores and follow-ups: llm, prm, dataset and split, and the keys of the jobs.

    The columns of the keys are score, graded and success.
    """
    success = sa.orm.aliased(JobRow)
    score_input, success_input = sa.orm.aliased(JobInput), sa.orm.aliased(JobInput)
    graded = graded_jobs()
    names = JobRow.columns("llm", "prm", "dataset", "split")
    query = sa.select(*names, JobRow.job_key.label("score"), graded.c.graded, success.job_key.label("success"))
    query = query.join(score_input, score_input.job_key == JobRow.job_key)
    query = query.join(graded, is_graded_for(graded, score_input.input_key, JobRow))
    query = query.join(success_input, success_input.input_key == graded.c.graded)
    query = query.join(success, success.job_key == success_input.job_key)
    are_done = (JobRow.status == "done", success.status == "done")
    query = query.where(JobRow.kind == "score", success.kind == "success", *are_done)
    return frame(source, query.order_by(*names, JobRow.job_key, success.job_key))


def scored_prefixes(source: Source, setting: Mapping[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the trajectories and the prefixes of a row of :func:`scored_settings`.

    The trajectories are as :func:`trajectories` returns them. There is a row for each scored prefix: question_id,
    trajectory, step, logit (null if the prefix is too long), successes and follow_ups. Successes and follow-ups are
    null without follow-ups, and for terminal prefixes that no metric counts.
    """
    counts = success_counts([setting["success"]]).subquery()
    cell = (Cell.llm == setting["llm"], Cell.prm == setting["prm"], Cell.dataset == setting["dataset"])
    is_measured = sa.and_(same_prefix(counts, Reward), is_counted(counts.c.terminal, *cell))
    query = sa.select(*Reward.columns(*PREFIX, "logit"), counts.c.successes, counts.c.follow_ups)
    query = query.outerjoin(counts, is_measured).where(Reward.job_key == setting["score"])
    query = query.order_by(Reward.question_id, Reward.trajectory, Reward.step)
    with connection_of(source) as connection:
        return frame(connection, sampled([setting["graded"]])), frame(connection, query)


def judged_prefixes(jobs: CellJobs) -> sa.Subquery:
    """Select all prefixes with a success rate and a reward, and their median calibrated reward."""
    counts = success_counts([jobs.success]).subquery()
    of_job = CalibratedReward.job_key == jobs.calibrated
    median = sa.select(CalibratedReward).where(of_job, CalibratedReward.level == MEDIAN).subquery()
    rate = sa.cast(counts.c.successes, sa.Double) / counts.c.follow_ups
    rewards = (Reward.reward, median.c.reward.label("calibrated_reward"), rate.label("success"))
    query = sa.select(*counts.c, *rewards).join(Reward, same_prefix(counts, Reward))
    query = query.outerjoin(median, same_prefix(median, Reward))
    return query.where(Reward.job_key == jobs.score, Reward.reward.is_not(None)).subquery()
