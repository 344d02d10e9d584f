"""Requests that wait together are scored together.

While the PRM scores one batch, other requests arrive and wait. The next batch takes all of them, up to a limit. A
request that finds the PRM idle is scored at once, since no timer collects requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prmcal.errors import NoAnswerError, PluginFailedError, PrmcalError
from prmcal.harness.inference.results import PrefixRewards

__all__ = ["Batcher", "Item"]

Item = tuple[str, Sequence[str]]
"""A question and the steps of a trajectory."""

_log = logging.getLogger(__name__)


@dataclass
class _Waiting:
    item: Item
    scored: asyncio.Future[PrefixRewards | PrmcalError]

    @property
    def characters(self) -> int:
        question, steps = self.item
        return len(question) + sum(map(len, steps))


class Batcher:
    """Score trajectories of several requests together.

    Parameters
    ----------
    score_many : callable
        It scores a batch, in a thread: :meth:`prmcal.harness.inference.calibrated_prm.CalibratedPRM.score_many`.
    rows, characters : int
        The largest batch. A trajectory with more characters is scored alone.
    """

    def __init__(
        self, score_many: Callable[[Sequence[Item]], list[PrefixRewards]], rows: int, characters: int
    ) -> None:
        self._score_many = score_many
        self._rows, self._characters = rows, characters
        self._waiting: deque[_Waiting] = deque()
        self._work: asyncio.Task[None] | None = None

    async def score(self, items: Sequence[Item]) -> list[PrefixRewards | PrmcalError]:
        """Return the rewards of each trajectory, or the error that its scoring ended with.

        If the caller is cancelled, those of its trajectories that still wait are not scored.
        """
        loop = asyncio.get_running_loop()
        own = [_Waiting(item, loop.create_future()) for item in items]
        self._waiting.extend(own)
        if self._work is None and own:
            self._work = asyncio.create_task(self._score_waiting())
        return await asyncio.gather(*(each.scored for each in own))

    async def _score_waiting(self) -> None:
        try:
            while batch := self._next_batch():
                results = await asyncio.to_thread(self._score, [each.item for each in batch])
                for each, result in zip(batch, results, strict=True):
                    if not each.scored.done():
                        each.scored.set_result(result)
        finally:
            self._work = None

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        characters = 0
        while self._waiting and len(batch) < self._rows:
            first = self._waiting[0]
            if first.scored.done():  # Its request was cancelled.
                self._waiting.popleft()
                continue
            characters += first.characters
            if batch and characters > self._characters:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _score(self, items: list[Item]) -> list[PrefixRewards | PrmcalError]:
        """Score a batch. If it fails, halves of it are scored, so that only the trajectories at fault fail."""
        try:
            return list(self._score_many(items))
        except NoAnswerError as error:  # Every half would wait as long again.
            return [error] * len(items)
        except Exception as error:
            if len(items) == 1:
                return [_as_ours(error)]
        middle = len(items) // 2
        return [*self._score(items[:middle]), *self._score(items[middle:])]


def _as_ours(error: Exception) -> PrmcalError:
    if isinstance(error, PrmcalError):
        return error
    _log.error("A trajectory could not be scored", exc_info=error)
    return PluginFailedError(f"The PRM failed with {type(error).__name__}: {error}")
