"""The graded texts of jobs: trajectories of rollouts, and the answers of searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.reader import Source, frame
from prmcal.db.tables import Job, Question, Search, Trajectory

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["graded_texts"]


def graded_texts(source: Source, job_keys: Sequence[str]) -> pd.DataFrame:
    """Return the texts of some jobs with their questions and grades, without those that the database does not have.

    Returns
    -------
    DataFrame
        Columns question_id, question, reference, trajectory (0 for a search, which has one answer), text, answer,
        verdict and correct, sorted by question and trajectory.
    """
    both = sa.union_all(
        _texts(Trajectory, Trajectory.trajectory, job_keys), _texts(Search, sa.literal(0), job_keys)
    ).subquery()
    return frame(source, sa.select(both).order_by(both.c.question_id, both.c.trajectory, both.c.text))


def _texts(
    table: type[Trajectory | Search], trajectory: sa.ColumnElement[Any] | Any, job_keys: Sequence[str]
) -> sa.Select[*tuple[Any, ...]]:
    same = sa.and_(
        Question.dataset == Job.dataset,
        Question.split == Job.split,
        Question.question_id == table.question_id,
    )
    return (
        sa.select(
            table.question_id,
            Question.text.label("question"),
            Question.answer.label("reference"),
            trajectory.label("trajectory"),
            table.text,
            table.answer,
            table.verdict,
            table.correct,
        )
        .join(Job, Job.job_key == table.job_key)
        .join(Question, same)
        .where(
            table.job_key.in_(job_keys),
            table.text.is_not(None),
            Question.text.is_not(None),
            Question.answer.is_not(None),
        )
    )
