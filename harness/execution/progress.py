"""The progress of a run: on the terminal and in its log."""

import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from prmcal import __version__
from prmcal.db.text.formats import duration
from prmcal.errors import StorageError
from prmcal.harness.execution.events import Notice, ShardOutcome
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.planning.costs import CostModel, seconds_left
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Manifest
from prmcal.harness.terminal import wrapped

_WIDTH_OF_LINES = 100


class Pace:
    """Limit repeated work to a share of the time, so that large runs are not slowed down.

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


def crew_now(plan: Plan, schedule: Schedule) -> list[str]:
    """Return a line on each worker's work, sorted by name: busy workers, then idle ones."""
    now, lines = time.monotonic(), []
    for worker, ref in schedule.workers.items():
        if ref is None:
            lines.append((True, len(worker), f"{worker}: idle"))
            continue
        again = f" (try {schedule.deaths[ref] + 1})" if schedule.deaths[ref] else ""
        seconds, note = now - schedule.started.get(ref, now), schedule.notes.get(ref, "")
        line = f"{worker}: {plan.job_of(ref)}{again}, {duration(seconds)}{note and f': {note}'}"
        lines.append((False, len(worker), line))
    return [line for *_, line in sorted(lines)]


class RunProgress:
    """The progress of a run: in its log, and as a bar with a line for each worker, or as a line every minute.

    The bar is for terminals. Earlier runs stay in the log. `plan` is the work of the run, and `done` are shards that
    were finished before. The bar or the lines are written to `stream`, by default standard error. After a block, the
    terminal is cleared and the log is closed.

    Raises a StorageError if the log cannot be written.
    """

    def __init__(
        self, plan: Plan, done: Mapping[ArtifactRef, Manifest], workers: int, log: Path, stream: TextIO | None = None
    ) -> None:
        self._plan = plan
        self._total = len(plan.shards())
        self._done = sum(shard.ref in done for shard in plan.shards())
        self._failed = 0
        self._manifests = dict(done)
        self._workers = workers
        self._estimates, self._pictures, self._lines = Pace(0.01, 1.0), Pace(0.1, 0.2), Pace(0.1, 60.0)
        self._end: float | None = None
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            self._log: TextIO = log.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
        except OSError as error:
            why = f"The log {log} cannot be written ({error.strerror or error})"
            raise StorageError(f"{why}. Choose another --out folder.") from error
        self.write(
            f"prmcal {__version__}: {self._total:,} shards with {workers} workers, of which {self._done:,} were "
            "finished before."
        )
        self._stream = stream or sys.stderr
        self._live: Live | None = None
        self._console = Console(file=self._stream)
        if self._stream.isatty():
            self._live = Live("", console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def write(self, line: str, details: Sequence[str] = ()) -> None:
        """Write a line with the time to the log, and details in indented lines."""
        lines = [f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}"]
        lines += [f"    {detail_line}" for detail in details for detail_line in detail.splitlines()]
        self._log.write("\n".join(lines) + "\n")

    def note(self, event: ShardOutcome | Notice) -> None:
        """Write an event to the log, and count a shard that is done or failed.

        Raises a StorageError if the machine failed, for example with a full disk.
        """
        if isinstance(event, Notice):
            self.write(event.line, event.details)
            if event.urgent:
                text = Text(wrapped(f"prmcal: warning: {event.line}", hanging="  "))
                with suppress(OSError):  # The terminal was closed.
                    self._console.print(text, soft_wrap=True)
            return
        what = f"{self._plan.job_of(event.ref)}  {event.ref.kind}/{event.ref.key}"
        if event.manifest is not None:
            tokens = event.manifest.generated_tokens + event.manifest.scored_tokens
            counted = f"  ({tokens:,} tokens)" if tokens else ""
            self.write(f"{event.manifest.seconds:8.1f} s  {what}{counted}", event.log)
            self._manifests[event.ref] = event.manifest
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
        if self._live is not None and self._pictures.due:
            with self._pictures.work():
                self._live.update(self._picture(schedule))
        elif self._live is None and self._lines.due:
            with self._lines.work():
                workers = "; ".join(crew_now(self._plan, schedule))
                line = f"{datetime.now():%H:%M}  {self._state(schedule)}; {workers}"
                text = textwrap.shorten(line, _WIDTH_OF_LINES, placeholder=" ...")
                print(text, file=self._stream, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self.write(f"The run was interrupted ({error.__name__}). Finished work is kept.")
        if self._live is not None:
            with suppress(OSError):  # A terminal that was closed cannot be cleared.
                self._live.stop()
        self._log.close()

    def _state(self, schedule: Schedule) -> str:
        """Return how much is done and how long the rest takes, such as "41% (80 of 196 shards), about 2 min left"."""
        share = self._done / self._total if self._total else 1.0
        parts = [f"{int(100 * share)}% ({self._done:,} of {self._total:,} shards)"]
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        if self._estimates.due:
            with self._estimates.work():
                now = time.monotonic()
                elapsed = {ref: now - begin for ref, begin in schedule.started.items()}
                cost = CostModel(self._plan, self._manifests)
                left = seconds_left(schedule.unfinished, cost, self._workers, elapsed)
            self._end = None if left is None else time.monotonic() + left
        if self._end is not None and not schedule.finished:
            parts.append(f"about {duration(max(0.0, self._end - time.monotonic()))} left")
        return ", ".join(parts)

    def _picture(self, schedule: Schedule) -> RenderableType:
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(ratio=1)
        head.add_column(no_wrap=True)
        head.add_row(ProgressBar(max(1, self._total), self._done), Text(self._state(schedule)))
        lines = crew_now(self._plan, schedule)
        room = max(1, self._console.height - 3)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"and {len(lines) - room + 1:,} other workers"]
        return Group(head, *(Text(f"  {line}", overflow="ellipsis", no_wrap=True) for line in lines))
