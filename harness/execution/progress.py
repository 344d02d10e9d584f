"""The progress of a run: on the terminal, in its log, and in the file that `prmcal status` reads."""

import json
import sys
import textwrap
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from prmcal import __version__
from prmcal.db.run_folder import crew_file
from prmcal.db.text.formats import duration
from prmcal.errors import StorageError
from prmcal.harness.execution.schedule import Notice, Outcome, Schedule
from prmcal.harness.planning.costs import CostModel, seconds_left
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, write_atomically
from prmcal.harness.terminal import wrapped


class Pace:
    """Repeat work so seldom that it takes at most a share of the time, so that large runs are not slowed down.

    `share` is the share of the time, in (0, 1), and `pause` the shortest pause in seconds.
    """

    def __init__(self, share: float, pause: float) -> None:
        self._share = share
        self._pause = pause
        self._next = time.monotonic() + pause

    @property
    def due(self) -> bool:
        """True if the work can be done now. It also begins with a pause."""
        return time.monotonic() >= self._next

    @contextmanager
    def work(self) -> Iterator[None]:
        """Do the work in the block."""
        begin = time.monotonic()
        try:
            yield
        finally:
            end = time.monotonic()
            self._next = end + max(self._pause, (end - begin) / self._share)


@dataclass(frozen=True, slots=True)
class WorkerNow:
    """The present activity of a worker."""

    worker: str
    """Its name, and before it the name of its node on a cluster."""
    job: str = ""
    """The job of its shard; empty if it is idle."""
    seconds: float = 0.0
    """Seconds for which it has computed this shard."""
    tries: int = 1
    """The number of times that the shard was begun, this time included."""
    note: str = ""
    """The words of the shard about its progress."""

    def __str__(self) -> str:
        if not self.job:
            return f"{self.worker}: idle"
        again = f" (try {self.tries})" if self.tries > 1 else ""
        return f"{self.worker}: {self.job}{again}, {duration(self.seconds)}{self.note and f': {self.note}'}"


def crew_now(plan: Plan, schedule: Schedule) -> list[WorkerNow]:
    """Return what each worker does, sorted by their names: those that compute, then idle ones."""
    now = time.monotonic()
    found = [
        WorkerNow(worker)
        if ref is None
        else WorkerNow(
            worker,
            str(plan.job_of(ref)),
            round(now - schedule.started.get(ref, now), 1),
            schedule.deaths[ref] + 1,
            schedule.notes.get(ref, ""),
        )
        for worker, ref in schedule.workers.items()
    ]
    return sorted(found, key=lambda each: (not each.job, len(each.worker), each.worker))


def read_crew(directory: Path) -> Sequence[WorkerNow]:
    """Return what the workers of a run do now; nothing if no run is going on."""
    try:
        return [WorkerNow(**each) for each in json.loads(crew_file(directory).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


_SECONDS_BETWEEN_LINES = 60.0
_SECONDS_BETWEEN_ESTIMATES = 1.0
_SECONDS_BETWEEN_PICTURES = 0.2
_SHARE_FOR_ESTIMATES = 0.01
_SECONDS_BETWEEN_CREWS = 2.0
_SHARE_FOR_CREWS = 0.005
_WIDTH_OF_LINES = 100


class Progress:
    """The progress of a run: in its log, and as a bar with a line for each worker, or as a line every minute.

    The bar is for terminals. What each worker does is also written into a file of the run's folder, every two seconds
    at most. Earlier runs stay in the log. `directory` is the output folder of the run, `plan` what it computes, and
    `done` are shards that were finished before. `cost` learns from the shards that are finished. The bar or the lines
    are written to `stream`, by default standard error.

    Raises a StorageError if the log cannot be written.
    """

    def __init__(
        self,
        directory: Path,
        plan: Plan,
        done: Collection[ArtifactRef],
        cost: CostModel,
        workers: int,
        log: Path,
        stream: TextIO | None = None,
    ) -> None:
        self._plan = plan
        self._total = len(plan.shards())
        self._done = sum(shard.ref in done for shard in plan.shards())
        self._failed = 0
        self._cost = cost
        self._workers = workers
        self._estimates = Pace(_SHARE_FOR_ESTIMATES, _SECONDS_BETWEEN_ESTIMATES)
        self._crew_file = crew_file(directory)
        self._crews = Pace(_SHARE_FOR_CREWS, _SECONDS_BETWEEN_CREWS)
        self._end: float | None = None
        self._next_picture = 0.0
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            self._log: TextIO = log.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
        except OSError as error:
            raise StorageError(
                f"The log {log} cannot be written ({error.strerror or error}). Choose another --log-file."
            ) from error
        self.write(
            f"prmcal {__version__}: {self._total:,} shards with {workers} workers, of which {self._done:,} were "
            "finished before."
        )
        self._stream = stream or sys.stderr
        self._last_line = time.monotonic()
        self._live: Live | None = None
        self._console = Console(file=self._stream)
        if self._stream.isatty():
            self._live = Live("", console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def write(self, line: str, details: Sequence[str] = ()) -> None:
        """Write a line with the time to the log, and details in indented lines."""
        lines = [f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}"]
        lines += [f"    {each}" for detail in details for each in detail.splitlines()]
        self._log.write("\n".join(lines) + "\n")

    def note(self, event: Outcome | Notice) -> None:
        """Write an event to the log, and count a shard that is done or failed.

        Raises a StorageError if the machine failed, for example with a full disk.
        """
        if isinstance(event, Notice):
            self.write(event.line, event.details)
            if event.urgent:
                with suppress(OSError):  # The terminal was closed.
                    self._console.print(
                        Text(wrapped(f"prmcal: warning: {event.line}", hanging="  ")), soft_wrap=True
                    )
            return
        what = f"{self._plan.job_of(event.ref)}  {event.ref.kind}/{event.ref.key}"
        if event.manifest is not None:
            tokens = event.manifest.generated_tokens + event.manifest.scored_tokens
            counted = f"  ({tokens:,} tokens)" if tokens else ""
            self.write(f"{event.manifest.seconds:8.1f} s  {what}{counted}", event.log)
            self._cost.learn(event.ref, event.manifest)
            self._done += 1
            return
        self._failed += 1
        assert event.failure is not None
        if event.blocked:
            self.write(f"   blocked  {what}")
        else:
            self.write(f"    failed  {what}", [event.failure.reason, *event.log])
        if event.fatal:
            raise StorageError(event.failure.reason)

    def update(self, schedule: Schedule) -> None:
        """Show the current state."""
        if self._crews.due:
            with self._crews.work():
                self._crew_file.parent.mkdir(parents=True, exist_ok=True)
                crew = [asdict(each) for each in crew_now(self._plan, schedule)]
                write_atomically(self._crew_file, json.dumps(crew))
        now = time.monotonic()
        if self._live is not None:
            if now >= self._next_picture:
                self._next_picture = now + _SECONDS_BETWEEN_PICTURES
                self._live.update(self._picture(schedule))
        elif now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            workers = "; ".join(map(str, crew_now(self._plan, schedule)))
            line = f"{datetime.now():%H:%M}  {self._state(schedule)}; {workers}"
            print(textwrap.shorten(line, _WIDTH_OF_LINES, placeholder=" ..."), file=self._stream, flush=True)

    def close(self) -> None:
        """Clear the terminal, and close the log."""
        if self._live is not None:
            with suppress(OSError):  # A terminal that was closed cannot be cleared.
                self._live.stop()
        self._log.close()

    def seconds_left(self, schedule: Schedule) -> float | None:
        """Return the seconds until the work is done; None if they are not known yet. It looks at all shards."""
        now = time.monotonic()
        elapsed = {ref: now - begin for ref, begin in schedule.started.items()}
        return seconds_left(schedule.unfinished, self._cost, self._workers, elapsed)

    def _state(self, schedule: Schedule) -> str:
        """Return how much is done and how long the rest takes, such as "41% (80 of 196 shards), about 2 min left"."""
        share = self._done / self._total if self._total else 1.0
        parts = [f"{int(100 * share)}% ({self._done:,} of {self._total:,} shards)"]
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        if self._estimates.due:
            with self._estimates.work():
                left = self.seconds_left(schedule)
            self._end = None if left is None else time.monotonic() + left
        if self._end is not None and not schedule.finished:
            parts.append(f"about {duration(max(0.0, self._end - time.monotonic()))} left")
        return ", ".join(parts)

    def _picture(self, schedule: Schedule) -> RenderableType:
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(ratio=1)
        head.add_column(no_wrap=True)
        head.add_row(ProgressBar(max(1, self._total), self._done), Text(self._state(schedule)))
        found = [str(each) for each in crew_now(self._plan, schedule)]
        room = max(1, self._console.height - 3)
        if len(found) > room:
            found = [*found[: room - 1], f"and {len(found) - room + 1:,} other workers"]
        return Group(head, *(Text(f"  {line}", overflow="ellipsis", no_wrap=True) for line in found))
