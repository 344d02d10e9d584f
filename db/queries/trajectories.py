"""From a cell to its questions, to a question's trajectories, to the prefixes of one.

Every query is about the jobs of one cell, looked up first, and names each job by its key: rows of a job lie together
in the file, so that the others are passed over. Lists come a page at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from prmcal.db.queries.pools import Pool, pool_of
from prmcal.db.queries.provenance import sampled
from prmcal.db.queries.success import success_counts
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import CalibratedReward, Question, Reward, SuccessCount, Trajectory

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "QUESTION_ORDERS",
    "prefixes",
    "question_page",
    "questions",
    "trajectories",
    "worst_prefixes",
]

QUESTION_ORDERS = ("question_id", "question_level", "pass_at_1", "reward_error", "calibrated_error")
"""Columns that a list of questions can be ordered by."""

_POINT = 0.5
_PREFIX = ("question_id", "trajectory", "step")


def questions(source: Source, cell_id: str) -> list[str]:
    """Return the identifiers of the questions that a cell was measured on, in order."""
    with connection_of(source) as connection:
        query = sa.select(Question.question_id).where(*_asked(pool_of(connection, cell_id)))
        return list(connection.scalars(query.order_by(Question.question_id)))


def question_page(
    source: Source,
    cell_id: str,
    *,
    search: str = "",
    order: str = "question_id",
    descending: bool = False,
    limit: int = 25,
    offset: int = 0,
) -> tuple[int, pd.DataFrame]:
    """Return some of a cell's questions, and how many there are in all.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    cell_id : str
        The cell.
    search : str
        Keep questions with this in their text, answer, subject or identifier; letters of either case.
    order : str
        One of :data:`QUESTION_ORDERS`. Questions without the value come last, equal ones by their identifier.
    descending : bool
        The largest first.
    limit, offset : int
        How many, and after how many.

    Returns
    -------
    int
        Questions that the search leaves.
    DataFrame
        Columns question_id, text, subject, question_level, trajectories, correct (of these), pass_at_1, prefixes,
        success (mean success rate over these), reward_error and calibrated_error (mean of reward minus success rate,
        as the PRM gave it and calibrated: above 0 is overestimated).

    Raises
    ------
    UnknownCellError
        If there is no such cell.
    ValueError
        If there is no such order.
    """
    if order not in QUESTION_ORDERS:
        raise ValueError(f"Questions can be ordered by {', '.join(QUESTION_ORDERS)}. Got '{order}'.")
    with connection_of(source) as connection:
        pool = pool_of(connection, cell_id)
        found = [*_asked(pool), *_matching(search)]
        total = connection.scalar(sa.select(sa.func.count()).select_from(Question).where(*found)) or 0
        graded, errors = _graded(pool), _errors_by_question(pool)
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
            .where(*found)
        )
        value = next(column for column in query.selected_columns if column.key == order)
        ordered = value.desc() if descending else value.asc()
        query = query.order_by(ordered.nulls_last(), Question.question_id).limit(limit).offset(offset)
        return total, frame(connection, query)


def worst_prefixes(
    source: Source,
    cell_id: str,
    *,
    column: Literal["reward", "calibrated_reward"] = "reward",
    over: bool = True,
    limit: int = 25,
    offset: int = 0,
) -> pd.DataFrame:
    """Return the prefixes whose reward is furthest above the success rate, or below it.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    cell_id : str
        The cell.
    column : {"reward", "calibrated_reward"}
        Whether the PRM's own reward is judged or the calibrated one.
    over : bool
        The most overestimated first, else the most underestimated.
    limit, offset : int
        How many, and after how many.

    Returns
    -------
    DataFrame
        Columns question_id, trajectory, step, successes, follow_ups, terminal, reward, calibrated_reward (the
        median; null where there is none) and error. A prefix that several
        trajectories share stands there once.
    """
    with connection_of(source) as connection:
        judged = _judged(pool_of(connection, cell_id))
        # Trajectories that begin alike share a prefix: all of them share the bare question.
        shared = (*(judged.c[name] for name in ("question_id", "step", "successes", "follow_ups")),)
        alike = sa.func.round(judged.c[column], 6)
        nth = sa.func.row_number().over(partition_by=[*shared, alike], order_by=judged.c.trajectory)
        error = (judged.c[column] - judged.c.success).label("error")
        shown = [each for each in judged.c if each.key != "success"]
        each = sa.select(*shown, error, nth.label("nth")).where(error.is_not(None)).subquery()
        order = each.c.error.desc() if over else each.c.error.asc()
        names = [column for column in each.c if column.key != "nth"]
        query = sa.select(*names).where(each.c.nth == 1).order_by(order, *(each.c[name] for name in _PREFIX))
        return frame(connection, query.limit(limit).offset(offset))


def trajectories(
    source: Source, cell_id: str, question_id: str | None = None, *, limit: int | None = None
) -> pd.DataFrame:
    """Return the trajectories that a cell was measured on, with their questions.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    cell_id : str
        The cell.
    question_id : str, optional
        Those of one question only.
    limit : int, optional
        The first ones only.

    Returns
    -------
    DataFrame
        question_id, question, reference (answer), question_level, trajectory, text, steps, tokens,
        finish_reason, answer, verdict, correct.

    Raises
    ------
    UnknownCellError
        If there is no such cell.
    """
    with connection_of(source) as connection:
        query = sampled([pool_of(connection, cell_id).rollout])
        if question_id is not None:
            query = query.where(Trajectory.question_id == question_id)
        return frame(connection, query.limit(limit))


def prefixes(source: Source, cell_id: str, question_id: str) -> pd.DataFrame:
    """Return every scored prefix of one question: reward, success counts and calibrated rewards.

    Returns
    -------
    DataFrame
        trajectory, step, logit, reward, over_long, successes, follow_ups, terminal (null where no follow-ups
        were drawn), level, calibrated_reward (null where the cell has no calibrator); one row per level beta.

    Raises
    ------
    UnknownCellError
        If there is no such cell.
    """
    with connection_of(source) as connection:
        pool = pool_of(connection, cell_id)
        counts = success_counts([pool.success]).where(SuccessCount.question_id == question_id).subquery()
        calibrated = (
            sa.select(CalibratedReward)
            .where(CalibratedReward.job_key == pool.calibrated, CalibratedReward.question_id == question_id)
            .subquery()
        )
        query = (
            sa.select(
                Reward.trajectory,
                Reward.step,
                Reward.logit,
                Reward.reward,
                Reward.over_long,
                counts.c.successes,
                counts.c.follow_ups,
                counts.c.terminal,
                calibrated.c.level,
                calibrated.c.reward.label("calibrated_reward"),
            )
            .outerjoin(counts, _same_prefix(counts.c))
            .outerjoin(calibrated, _same_prefix(calibrated.c))
            .where(Reward.job_key == pool.score, Reward.question_id == question_id)
            .order_by(Reward.trajectory, Reward.step, calibrated.c.level)
        )
        return frame(connection, query)


def _asked(pool: Pool) -> list[sa.ColumnElement[bool]]:
    return [Question.dataset == pool.dataset, Question.split == pool.split]


def _matching(search: str) -> list[sa.ColumnElement[bool]]:
    wanted = search.strip()
    columns = (Question.text, Question.answer, Question.subject, Question.question_id)
    return [sa.or_(*(each.icontains(wanted, autoescape=True) for each in columns))] if wanted else []


def _graded(pool: Pool) -> sa.Subquery:
    right = sa.cast(Trajectory.correct, sa.Integer)
    return (
        sa.select(
            Trajectory.question_id,
            sa.func.count().label("trajectories"),
            sa.cast(sa.func.sum(right), sa.Integer).label("correct"),
            sa.func.avg(right).label("pass_at_1"),
        )
        .where(Trajectory.job_key == pool.rollout)
        .group_by(Trajectory.question_id)
        .subquery()
    )


def _errors_by_question(pool: Pool) -> sa.Subquery:
    judged = _judged(pool)
    return (
        sa.select(
            judged.c.question_id,
            sa.func.count().label("prefixes"),
            sa.func.avg(judged.c.success).label("success"),
            sa.func.avg(judged.c.reward - judged.c.success).label("reward_error"),
            sa.func.avg(judged.c.calibrated_reward - judged.c.success).label("calibrated_error"),
        )
        .group_by(judged.c.question_id)
        .subquery()
    )


def _judged(pool: Pool) -> sa.Subquery:
    """Every prefix that has both a success rate and a reward, with the median of its calibrated reward."""
    counts = success_counts([pool.success]).subquery()
    median = (
        sa.select(CalibratedReward)
        .where(CalibratedReward.job_key == pool.calibrated, CalibratedReward.level == _POINT)
        .subquery()
    )
    rate = sa.cast(counts.c.successes, sa.Double) / counts.c.follow_ups
    return (
        sa.select(
            *counts.c,
            Reward.reward,
            median.c.reward.label("calibrated_reward"),
            rate.label("success"),
        )
        .join(Reward, _same_prefix(counts.c))
        .outerjoin(median, _same_prefix(median.c))
        .where(Reward.job_key == pool.score, Reward.reward.is_not(None))
        .subquery()
    )


def _same_prefix(columns: Any) -> sa.ColumnElement[bool]:
    return sa.and_(*(columns[name] == getattr(Reward, name) for name in _PREFIX))
