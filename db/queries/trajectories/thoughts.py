"""How many trajectories of each LLM were cut off inside a thought, so that they have no answer."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from prmcal.db.reader import Source, connection_of
from prmcal.db.tables import Job, Trajectory

__all__ = ["CutOff", "cut_off_thoughts"]

_REASON = "thought"
"""The finish reason of such a trajectory."""


@dataclass(frozen=True)
class CutOff:
    """The trajectories of one LLM, on all data sets together, and how many of them were cut off inside a thought."""

    llm: str
    trajectories: int
    cut_off: int


def cut_off_thoughts(source: Source) -> list[CutOff]:
    """Return the LLMs some of whose trajectories were cut off inside a thought, sorted by name."""
    cut_off = sa.func.count().filter(Trajectory.finish_reason == _REASON)
    query = (
        sa.select(Job.llm, sa.func.count(), cut_off)
        .join(Trajectory, Trajectory.job_key == Job.job_key)
        .group_by(Job.llm)
        .having(cut_off > 0)
        .order_by(Job.llm)
    )
    with connection_of(source) as connection:
        return [CutOff(str(llm), count, ended) for llm, count, ended in connection.execute(query)]
