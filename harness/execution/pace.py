"""How often a run repeats work whose cost grows with the run, such as publishing results."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Pace"]


class Pace:
    """Repeat work so seldom that it takes at most a share of the time.

    Work is due when it would stay within its share of the time since the last work, and of the whole time, if it takes
    as long as it took last. So the work of small runs is done early and often, and large runs are not slowed down.

    Parameters
    ----------
    share : float
        The share of the time, in (0, 1).
    pause : float
        The shortest pause, in seconds.

    Attributes
    ----------
    seconds : float
        What the work has taken so far.
    """

    def __init__(self, share: float, pause: float) -> None:
        self.seconds = 0.0
        self._share = share
        self._pause = pause
        self._begin = time.monotonic()
        self._next = self._begin + pause

    @property
    def due(self) -> bool:
        """Whether the work can be done now. It also begins with a pause."""
        return time.monotonic() >= self._next

    @contextmanager
    def work(self) -> Iterator[None]:
        """Do the work in the block."""
        begin = time.monotonic()
        try:
            yield
        finally:
            end = time.monotonic()
            last = end - begin
            self.seconds += last
            self._next = max(
                end + max(self._pause, last / self._share), self._begin + (self.seconds + last) / self._share
            )
