"""What ends a run before its work is done: a signal, or the limit of its time."""

from __future__ import annotations

import math
import signal
import threading
import time
from typing import Any, Literal, Self

__all__ = ["EndWatch", "Ending"]

Ending = Literal["SIGINT", "SIGTERM", "SIGHUP", "max-hours", "error"]
"""What ended a run: Ctrl-C, a scheduler, a terminal that was closed, the limit of its time, or an error."""

_SIGNALS: tuple[Ending, ...] = ("SIGINT", "SIGTERM", "SIGHUP")

# A scheduler may send a signal to a shell and to its children, and the shell may pass it on to them.
_SECONDS_OF_ONE_SIGNAL = 1.0


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
        """What ends the run; None as long as it may go on."""
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
