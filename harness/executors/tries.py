"""How often a shard is tried when its workers die."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.harness.executors.executor import Notice
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.scheduling.failures import Failure
from prmcal.harness.scheduling.schedule import Outcome, Schedule

__all__ = ["MOST_TRIES", "after_death"]

MOST_TRIES = 3
"""How often a shard is computed if its workers die."""


def after_death(
    schedule: Schedule, shard: Shard[Parameters], reason: str, lines: Sequence[str] = ()
) -> list[Outcome | Notice]:
    """Put a shard whose worker died back into the schedule, or let it fail after three tries.

    A worker can die without a fault of its shard, for example when another process uses up the memory.

    Parameters
    ----------
    schedule : Schedule
        Its attribute `deaths` counts the tries.
    shard : Shard
        A running shard.
    reason : str
        How its worker died, as a sentence without a full stop.
    lines : sequence of str
        The last lines that the worker wrote.

    Returns
    -------
    list of Outcome and Notice
        What is to be told.
    """
    schedule.deaths[shard.ref] += 1
    deaths = schedule.deaths[shard.ref]
    if deaths < MOST_TRIES:
        schedule.put_back(shard.ref)
        what = f"{shard.ref.kind}/{shard.ref.key}"
        return [
            Notice(f"{reason} at {what} (try {deaths} of {MOST_TRIES}). It is tried again.", tuple(lines))
        ]
    failure = Failure(f"{reason} at each of {MOST_TRIES} tries.", "crash")
    return list(schedule.finish(Outcome(shard.ref, failure=failure, log=tuple(lines))))
