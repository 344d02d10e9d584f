"""The successes of a prefix, added up over the blocks of follow-ups that single shards drew."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from prmcal.db.tables import SuccessCount

__all__ = ["success_counts"]


def success_counts(job_keys: Sequence[str]) -> sa.Select[tuple[str, int, int, int, int, bool]]:
    """Select question_id, trajectory, step, successes, follow_ups and terminal of all prefixes of some jobs."""
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
