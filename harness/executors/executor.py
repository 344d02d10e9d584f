"""What an executor is: it takes shards from a schedule, has them computed anywhere, and tells what came of them.

A shard is plain data. An executor needs nothing else, except the output folder and the plugin files.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from prmcal.harness.scheduling.schedule import Outcome, Schedule

__all__ = ["Event", "Executor", "Notice"]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the log of the run tells, such as the death of a worker.

    Attributes
    ----------
    line : str
        One sentence.
    details : tuple of str
        Lines below it, such as the last lines that a worker wrote.
    """

    line: str
    details: tuple[str, ...] = ()


Event = Outcome | Notice | None


class Executor(Protocol):
    """Runs the shards of a schedule."""

    def run(self, schedule: Schedule) -> Generator[Event]:
        """Yield the outcome of every shard, in any order, and None from time to time while waiting.

        The outcomes include those of shards that depend on a failed shard, which ``schedule.finish`` returns.
        Notices may come between them. All workers end when the generator is closed.
        """
