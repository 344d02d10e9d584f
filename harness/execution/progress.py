"""The progress display of a run: finished shards, running jobs, tokens per second and time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.live import Live

from prmcal.db.text.formats import duration
from prmcal.harness.execution.schedule import Outcome, Schedule
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan

__all__ = ["Progress"]

_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Show a live line on a terminal, or print a line every ten seconds elsewhere.

    Parameters
    ----------
    plan : Plan
    reused : int
        Shards that were finished before.
    estimate : callable
        Returns the seconds that a schedule will still take, or None if they are not known.
    stream : text file, optional
        Where the lines are written; by default standard error.
    """

    def __init__(
        self,
        plan: Plan,
        reused: int,
        estimate: Callable[[Schedule], float | None],
        stream: TextIO | None = None,
    ) -> None:
        self.plan = plan
        self.total = len({shard.ref for shard in plan.shards()})
        self.done = reused
        self.failed = 0
        self.tokens = 0
        self._estimate = estimate
        self._stream = stream or sys.stderr
        self._begin = time.monotonic()
        self._last_line = self._begin
        self._live: Live | None = None
        if self._stream.isatty():
            self._live = Live("", console=Console(file=self._stream), refresh_per_second=4, transient=True)
            self._live.start()

    def update(self, schedule: Schedule, outcome: Outcome | None) -> None:
        """Count an outcome and show the current state."""
        if outcome is not None and outcome.manifest is not None:
            self.done += 1
            self.tokens += outcome.manifest.generated_tokens + outcome.manifest.scored_tokens
        elif outcome is not None:
            self.failed += 1
        if self._live is not None:
            self._live.update(self.line(schedule))
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            print(self.line(schedule), file=self._stream, flush=True)

    def line(self, schedule: Schedule) -> str:
        """Return the current state in one line."""
        seconds = time.monotonic() - self._begin
        parts = [f"{self.done}/{self.total} shards"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        running = dict.fromkeys(
            " ".join(filter(None, (str(self.plan.job_of(shard.ref)), _noted(schedule, shard))))
            for shard in schedule.running
        )
        parts.append("running: " + ("; ".join(running) or "nothing"))
        if self.tokens:
            parts.append(f"{self.tokens / seconds:,.0f} tokens/s")
        left = self._estimate(schedule)
        if left is not None and schedule.running:
            parts.append(f"about {duration(left)} left")
        return " | ".join(parts)

    def close(self) -> None:
        """Clear the live line."""
        if self._live is not None:
            self._live.stop()


def _noted(schedule: Schedule, shard: Shard[Parameters]) -> str:
    note = schedule.notes.get(shard.ref)
    return f"({note})" if note else ""
