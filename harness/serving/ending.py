"""The end of the server: what still runs when the time for it is over is told so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ["Ending", "EndingError"]

_T = TypeVar("_T")


class EndingError(Exception):
    """The server ends before the work is done."""


class Ending:
    """Whether the server ends now. Requests wait for their work through it."""

    def __init__(self) -> None:
        self._begun = asyncio.Event()

    @property
    def begun(self) -> bool:
        """Whether it has begun."""
        return self._begun.is_set()

    def begin(self) -> None:
        """End all work that is waited for, now and later."""
        self._begun.set()

    async def before(self, work: Awaitable[_T]) -> _T:
        """Return the result of some work.

        Raises
        ------
        EndingError
            If the server ends before. The work is cancelled.
        """
        task, end = asyncio.ensure_future(work), asyncio.ensure_future(self._begun.wait())
        try:
            await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise EndingError
        finally:  # Also if the client went away.
            end.cancel()
            task.cancel()
