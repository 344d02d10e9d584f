"""Collect the calls that wait in an event loop, and make them together while another thread computes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from prmcal.errors import PrmcalError

__all__ = ["Together"]

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """Make one call for all items that wait. A call starts at once if none is in progress, so no timer is needed.

    Parameters
    ----------
    call : callable
        Takes some items and returns a result or an error for each.
    most : int
        The largest number of items in a call.
    """

    def __init__(self, call: Callable[[Sequence[T]], list[R | PrmcalError]], most: int = 256) -> None:
        self._call = call
        self._most = most
        self._waiting: deque[tuple[T, asyncio.Future[R | PrmcalError]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, items: Sequence[T]) -> list[R | PrmcalError]:
        """Return the result or the error of each item."""
        loop = asyncio.get_running_loop()
        futures = []
        for item in items:
            future: asyncio.Future[R | PrmcalError] = loop.create_future()
            self._waiting.append((item, future))
            futures.append(future)
        if futures and (self._worker is None or self._worker.done() or self._worker.get_loop() is not loop):
            self._worker = loop.create_task(self._work())
        return [await future for future in futures]

    async def _work(self) -> None:
        while self._waiting:
            count = min(len(self._waiting), self._most)
            taken = [self._waiting.popleft() for _ in range(count)]
            # A client that went away has cancelled its futures.
            taken = [(item, future) for item, future in taken if not future.done()]
            if not taken:
                continue
            try:
                found = await asyncio.to_thread(self._call, [item for item, _ in taken])
            except BaseException as error:
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                continue
            for (_, future), result in zip(taken, found, strict=True):
                if not future.done():
                    future.set_result(result)
