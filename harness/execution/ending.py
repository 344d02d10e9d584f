"""The end of a run and of its shards: signals, failures with advice, and the summary."""

import json
import re
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import TypeAdapter

from prmcal.db.run_folder import FAILURES_FILE
from prmcal.db.text.formats import counted
from prmcal.errors import FaultyPluginError, ModelBrokenError, NoAnswerError, PluginFailedError, PrmcalError
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import write_atomically
from prmcal.harness.terminal import wrapped
from prmcal.registry.messages import excerpt, message_of

Ending = Literal["SIGINT", "SIGTERM", "SIGHUP"]
"""The signals that end a run: of Ctrl-C, a scheduler, or a terminal that was closed."""

_SIGNALS: tuple[Ending, ...] = ("SIGINT", "SIGTERM", "SIGHUP")

_FAULT = re.compile(r"error|fail|fatal|killed|out of memory|no space|cannot|denied|abort|fault", re.IGNORECASE)
# A scheduler may send a signal to a shell and to its children, and the shell may pass it on to them.
_SECONDS_OF_ONE_SIGNAL = 1.0


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run."""

    computed: int
    reused: int
    """Shards that were computed, and shards that were finished before."""
    cells: int
    done_cells: int
    failed_cells: int
    """The lines of the leaderboards that the run was asked for, and the finished and the failed ones among them."""
    grid_cells: int
    """All lines of the leaderboards."""
    failures: "tuple[FailureGroup, ...]"
    """Why cells failed, grouped by reason, and failed graders whose verdicts no cell needs."""
    seconds: float
    """Wall time of the run."""
    log: Path
    """The log of the run."""
    ending: Ending | None = None
    """The signal that ended the run before its work was done."""


class EndWatch:
    """Notice signals that end a run early, so that it ends between two outcomes and leaves nothing half-written.

    Inside the block, the first signal is noticed and has no other effect. The next signal, at least a second later, has
    its usual effect. A signal that is ignored, such as SIGHUP after ``nohup``, stays ignored. Only the main thread can
    notice signals.

    Attributes
    ----------
    ending : Ending or None
        The signal that ends the run; None while the run may go on.
    """

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self.ending: Ending | None = None
        self._since = 0.0
        self._before: dict[int, Any] = {}

    @property
    def seconds(self) -> float:
        """Seconds that the run has taken so far."""
        return time.monotonic() - self._begin

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for name in _SIGNALS:
                number = signal.Signals[name]
                # None is a handler that is not Python's, which could not be set again.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._notice)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _notice(self, number: int, _frame: object) -> None:
        now = time.monotonic()
        if self.ending is None:
            self.ending = cast(Ending, signal.Signals(number).name)
            self._since = now
        elif now - self._since >= _SECONDS_OF_ONE_SIGNAL:
            self.__exit__()
            signal.raise_signal(number)


Cause = Literal["network", "model", "plugin", "input", "crash", "error"]
"""The part that failed: the network of a plugin, a model that broke, a plugin, an input such as a damaged file, the
worker process, or prmcal."""

_CAUSES: dict[type, Cause] = {NoAnswerError: "network", ModelBrokenError: "model", FaultyPluginError: "plugin"}
_ADVICE: dict[Cause, str] = {
    "network": "Check the server, then run the same command again. It tries again only what failed.",
    "model": "The model was loaded again for each try. {log} has the tracebacks and the last lines of its processes. "
    "Remove the cause, then run the same command again. It tries again only what failed.",
    "plugin": "The traceback is in {log}. Correct the plugin, then run the same command again.",
    "input": "When this is corrected, run the same command again. It tries again only what failed.",
    "crash": "The process ran out of memory, or native code crashed. {log} has the last lines that it wrote. Try again "
    "with fewer --workers.",
    "error": "This is an error in prmcal or in one of its libraries. The traceback is in {log}.",
}

_LONGEST_REASON = 600


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a shard failed."""

    reason: str
    """The event in a sentence: on one line, without control characters. An ellipsis at its end means that the log has
    more."""
    cause: Cause = "plugin"
    plugin: str = ""
    """The kind and name of the plugin that failed, as in ``prm:nano-prm``; empty if none did."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", excerpt(self.reason, _LONGEST_REASON))

    @classmethod
    def of(cls, error: Exception, kind: str) -> Self:
        """Return the failure of a shard of this kind of job that raised an error."""
        if not isinstance(error, PrmcalError):
            return cls(f"{kind}: {message_of(error)}", "error")
        cause: Cause = next((cause for raised, cause in _CAUSES.items() if isinstance(error, raised)), "input")
        return cls(str(error), cause, error.plugin if isinstance(error, PluginFailedError) else "")

    def with_root(self, lines: Sequence[str]) -> Self:
        """Return the failure of a model with the last line of its processes about a fault.

        The processes of an engine write there why they ended. The parent process only knows that they failed.
        """
        faults = [line for line in lines if _FAULT.search(line)] or lines
        if not faults or faults[-1].strip() in self.reason:
            return self
        return replace(self, reason=f"{self.reason.rstrip('.')}. Its processes wrote: {faults[-1].strip()}")


_FAILURES = TypeAdapter(dict[str, Failure])


@dataclass(frozen=True)
class FailureGroup:
    """Cells that failed for the same reason, or a grader whose verdicts no cell needs."""

    failure: Failure
    """The reason of the first cell. The reasons of the other cells differ from it only in numbers."""
    cells: tuple[str, ...]
    """Their ids."""

    def advice(self, log: Path) -> str:
        """Return advice in one or two sentences. `log` is the log of the run."""
        return _ADVICE[self.failure.cause].format(log=log)


def failed_cells(plan: Plan, failures: Mapping[str, Failure]) -> dict[str, Failure]:
    """Return why cells failed, by their ids.

    `failures` say why shards failed, by their keys. They include shards that were not computed because another shard
    failed.
    """
    failed = {cell.cell_id: [ref.key for ref in cell.job.refs if ref.key in failures] for cell in plan.cells}
    return {cell: failures[keys[0]] for cell, keys in failed.items() if keys}


def grouped(cells: Mapping[str, Failure]) -> tuple[FailureGroup, ...]:
    """Group failed cells by their reasons, the largest group first."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cell, failure in cells.items():
        groups[failure.cause, re.sub(r"\d+", "0", failure.reason)].append(cell)
    largest_first = sorted(groups.values(), key=len, reverse=True)
    return tuple(FailureGroup(cells[ids[0]], tuple(ids)) for ids in largest_first)


def write_failures(directory: Path, failures: Mapping[str, Failure]) -> None:
    """Write why shards failed, by their keys, into a run's folder."""
    content = {key: asdict(failure) for key, failure in failures.items()}
    write_atomically(directory / FAILURES_FILE, json.dumps(content, indent=1, sort_keys=True))


def read_failures(directory: Path) -> dict[str, Failure]:
    """Return why shards failed in the latest run, by their keys; none if the file is absent or damaged.

    A damaged file loses reasons only: the same command tries these shards again.
    """
    try:
        text = (directory / FAILURES_FILE).read_text(encoding="utf-8")
        return _FAILURES.validate_python(json.loads(text))
    except (OSError, ValueError, RecursionError):
        return {}


def lines_on_failures(failures: Sequence[FailureGroup], log: Path) -> list[str]:
    """Return lines on failures: what failed, how often, and what to do."""
    lines = []
    for group in failures:
        cells = ", ".join(group.cells[:2]) + (f" and {len(group.cells) - 2:,} more" if len(group.cells) > 2 else "")
        count = f"{counted(len(group.cells), 'cell')} failed: " if group.cells else ""
        lines += ["", wrapped(f"prmcal: error: {count}{group.failure.reason}", hanging="  ")]
        if group.cells:
            lines.append(wrapped(f"Cells: {cells}.", indent="  "))
        lines.append(wrapped(f"What to do: {group.advice(log)}", indent="  "))
    return lines
