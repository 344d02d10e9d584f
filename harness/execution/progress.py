"""The progress of a run: finished shards, time left, and what each worker does."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from datetime import datetime
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from prmcal.db.text.formats import duration
from prmcal.harness.execution.crew import crew_now
from prmcal.harness.execution.pace import Pace
from prmcal.harness.planning.plan import Plan
from prmcal.harness.scheduling.schedule import Outcome, Schedule

__all__ = ["Progress"]

_SECONDS_BETWEEN_LINES = 60.0
_SECONDS_BETWEEN_ESTIMATES = 1.0
_SECONDS_BETWEEN_PICTURES = 0.2
_SHARE_FOR_ESTIMATES = 0.01
_WIDTH_OF_LINES = 100


class Progress:
    """Show a bar and a line for each worker on a terminal, or print a line every minute elsewhere.

    Parameters
    ----------
    plan : Plan
    reused : int
        Shards that were finished before.
    estimate : callable
        Returns the seconds until a schedule is finished, or None if they are not known yet.
    stream : text file, optional
        Where it is written; by default standard error.
    """

    def __init__(
        self,
        plan: Plan,
        reused: int,
        estimate: Callable[[Schedule], float | None],
        stream: TextIO | None = None,
    ) -> None:
        self.plan = plan
        self.total = len(plan.shards())
        self.done = reused
        self.failed = 0
        self._estimate = estimate
        self._estimates = Pace(_SHARE_FOR_ESTIMATES, _SECONDS_BETWEEN_ESTIMATES)
        self._end: float | None = None
        self._next_picture = 0.0
        self._stream = stream or sys.stderr
        self._last_line = time.monotonic()
        self._live: Live | None = None
        self._console = Console(file=self._stream)
        if self._stream.isatty():
            self._live = Live("", console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def count(self, outcome: Outcome) -> None:
        """Count a shard that is done or failed."""
        if outcome.manifest is not None:
            self.done += 1
        else:
            self.failed += 1

    def update(self, schedule: Schedule) -> None:
        """Show the current state."""
        now = time.monotonic()
        if self._live is not None:
            if now >= self._next_picture:
                self._next_picture = now + _SECONDS_BETWEEN_PICTURES
                self._live.update(self._picture(schedule))
        elif now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            line = f"{datetime.now():%H:%M}  {self.state(schedule)}; {'; '.join(self.workers(schedule))}"
            print(textwrap.shorten(line, _WIDTH_OF_LINES, placeholder=" ..."), file=self._stream, flush=True)

    def state(self, schedule: Schedule) -> str:
        """Return how much is done and how long the rest takes, such as "41% (80 of 196 shards), about 2 min left"."""
        share = self.done / self.total if self.total else 1.0
        parts = [f"{int(100 * share)}% ({self.done:,} of {self.total:,} shards)"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        left = self._seconds_left(schedule)
        if left is not None and not schedule.finished:
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def workers(self, schedule: Schedule) -> list[str]:
        """Return one line for each worker: the job of its shard, how long it takes, and the shard's own progress."""
        return [str(each) for each in crew_now(self.plan, schedule)]

    def close(self) -> None:
        """Clear the terminal."""
        if self._live is not None:
            self._live.stop()

    def _seconds_left(self, schedule: Schedule) -> float | None:
        """Return the seconds until the estimated end. It is estimated again and again, by looking at all shards."""
        if self._estimates.due:
            with self._estimates.work():
                left = self._estimate(schedule)
            self._end = None if left is None else time.monotonic() + left
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def _picture(self, schedule: Schedule) -> RenderableType:
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(ratio=1)
        head.add_column(no_wrap=True)
        head.add_row(ProgressBar(max(1, self.total), self.done), Text(self.state(schedule)))
        found = self.workers(schedule)
        room = max(1, self._console.height - 3)
        if len(found) > room:
            found = [*found[: room - 1], f"and {len(found) - room + 1:,} other workers"]
        return Group(head, *(Text(f"  {line}", overflow="ellipsis", no_wrap=True) for line in found))
