"""Signals that end a command."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

__all__ = ["ending_cleanly"]


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, so that its temporary files are removed.

    A signal that is ignored, such as SIGHUP after ``nohup``, stays ignored.
    """
    before = {
        number: signal.signal(number, _end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
