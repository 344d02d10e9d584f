"""How often a run repeats work whose cost grows with the run, such as publishing results."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Pace"]


class Pace:
    """Repeat work so seldom that it takes at most a share of the time.

    The pause after the work is as long as the work took, divided by the share. So results of small runs are visible
    early, and large runs are not slowed down.

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
        self._next = time.monotonic() + pause

    @property
    def due(self) -> bool:
        """Whether the pause is over. It also begins with a pause."""
        return time.monotonic() >= self._next

    @contextmanager
    def work(self) -> Iterator[None]:
        """Do the work in the block. Then the pause begins."""
        begin = time.monotonic()
        try:
            yield
        finally:
            end = time.monotonic()
            self.seconds += end - begin
            self._next = end + max(self._pause, (end - begin) / self._share)
