"""What queries about prefixes share: the columns that identify a prefix, and its success counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from prmcal.db.tables import Cell, Job, SuccessCount

__all__ = ["MEDIAN", "PREFIX", "counted", "same_prefix", "success_counts"]

PREFIX = ("question_id", "trajectory", "step")
"""The columns that identify a prefix within a job."""

MEDIAN = 0.5
"""The quantile level beta of the point estimate."""


def same_prefix(first: Any, second: Any) -> sa.ColumnElement[bool]:
    """Return the condition that rows of two tables or subqueries are about the same prefix."""
    return sa.and_(*(_column(first, name) == _column(second, name) for name in PREFIX))


def counted(terminal: sa.ColumnElement[bool], *cell: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition that the metrics of a calibration cell count a prefix.

    Parameters
    ----------
    terminal : column
        The column that tells whether the prefix contains its final answer.
    *cell : conditions
        They select the cell in the table ``cells``.
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
