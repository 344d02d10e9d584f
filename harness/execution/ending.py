"""The end of a run: signals and the time limit that end it early, its summary, and the command of the user after it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from prmcal.db.text.formats import duration
from prmcal.harness.execution.failures import FailureGroup

Ending = Literal["SIGINT", "SIGTERM", "SIGHUP", "max-hours", "error"]
"""The causes that end a run: Ctrl-C, a scheduler, a terminal that was closed, the limit of its time, or an error."""

_SIGNALS: tuple[Ending, ...] = ("SIGINT", "SIGTERM", "SIGHUP")

# A scheduler may send a signal to a shell and to its children, and the shell may pass it on to them.
_SECONDS_OF_ONE_SIGNAL = 1.0


RunState = Literal["done", "failed", "interrupted", "ended"]
"""The ends of a run: all cells that it was asked for, failed ones among them, a signal or an error, or no time left."""


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run.

    Attributes
    ----------
    computed, reused : int
        Shards that were computed, and shards that were finished before.
    cells, done_cells, failed_cells : int
        The lines of the leaderboards that the run was asked for, and the finished and the failed ones among them.
    grid_cells : int
        All lines of the leaderboards.
    failures : tuple of FailureGroup
        Why cells failed, those with the same reason together.
    seconds : float
        Wall time of the run.
    log : Path
        The log of the run.
    ending : Ending or None
        What ended the run before its work was done.
    """

    computed: int
    reused: int
    cells: int
    done_cells: int
    failed_cells: int
    grid_cells: int
    failures: tuple[FailureGroup, ...]
    seconds: float
    log: Path
    ending: Ending | None = None

    @property
    def state(self) -> RunState:
        """The way in which it ended."""
        if self.ending is not None:
            return "ended" if self.ending == "max-hours" else "interrupted"
        return "failed" if self.failed_cells else "done"


class EndWatch:
    """Notice what ends a run early, so that it can end between two outcomes and leave nothing half-written.

    Inside the block, the first signal is noticed and has no other effect. The next one, a second later or more, has the
    effect that it has outside. A signal that is ignored, such as SIGHUP after ``nohup``, stays ignored. Only the main
    thread can notice signals. In other threads only the time counts.

    Parameters
    ----------
    deadline : float, default inf
        When the time of the run is over, in seconds of ``time.monotonic``.
    """

    def __init__(self, deadline: float = math.inf) -> None:
        self._deadline = deadline
        self._noticed: Ending | None = None
        self._since = 0.0
        self._before: dict[int, Any] = {}

    @property
    def ending(self) -> Ending | None:
        """The cause that ends the run; None as long as it may go on."""
        if self._noticed is None and time.monotonic() >= self._deadline:
            return "max-hours"
        return self._noticed

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
        if self._noticed is None:
            self._noticed = next(name for name in _SIGNALS if signal.Signals[name] == number)
            self._since = now
        elif now - self._since >= _SECONDS_OF_ONE_SIGNAL:
            self.__exit__()
            signal.raise_signal(number)


_MOST_SECONDS = 600.0


def run_on_finish(command: str, directory: Path, summary: RunSummary, seconds: float = _MOST_SECONDS) -> str:
    """Run a shell command that finds in its environment how the run ended.

    The variables are PRMCAL_RUN (the absolute path of the output folder), PRMCAL_STATE (done, failed, interrupted or
    ended), PRMCAL_CELLS_DONE and PRMCAL_CELLS_FAILED.

    Parameters
    ----------
    directory : Path
        The output folder.
    seconds : float
        The time after which the command is killed, with all processes that it started.

    Returns
    -------
    str
        A sentence that says how the command failed. Empty if it did not.
    """
    variables = {
        "PRMCAL_RUN": str(directory.resolve()),
        "PRMCAL_STATE": summary.state,
        "PRMCAL_CELLS_DONE": str(summary.done_cells),
        "PRMCAL_CELLS_FAILED": str(summary.failed_cells),
    }
    process = subprocess.Popen(
        command, shell=True, stdin=subprocess.DEVNULL, env=os.environ | variables, process_group=0
    )
    try:
        code = process.wait(seconds)
    except BaseException as error:
        with suppress(ProcessLookupError):  # The whole group has ended.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"The command of --on-finish took longer than {duration(seconds)} and was killed."
    return f"The command of --on-finish failed with exit code {code}." if code else ""
