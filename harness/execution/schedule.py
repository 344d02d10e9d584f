"""The order of shards: it follows dependencies and failures, and keeps models loaded."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from prmcal.harness.execution.failures import Failure
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Manifest

__all__ = ["Outcome", "Schedule"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a shard.

    Attributes
    ----------
    ref : ArtifactRef
    manifest : Manifest or None
        The manifest of its artifact, or None if it failed.
    failure : Failure or None
        Why it failed, or None if it did not.
    blocked : bool
        Whether it was not computed because a shard that it needs failed.
    fatal : bool
        Whether the run must stop because the machine failed, for example with a full disk.
    log : tuple of str
        Lines for the log: repeated requests, warnings, and the traceback of an error.
    """

    ref: ArtifactRef
    manifest: Manifest | None = None
    failure: Failure | None = None
    blocked: bool = False
    fatal: bool = False
    log: tuple[str, ...] = ()


class Schedule:
    """Hand out shards whose inputs are finished.

    Shards that need no model are first, because they complete cells. Shards for the model that the worker has loaded
    are next. Then come the other models in the order of the plan, LLMs before PRMs. So each model is loaded as few
    times as the dependencies allow.

    Parameters
    ----------
    plan : Plan
    done : collection of ArtifactRef
        Finished shards.

    Attributes
    ----------
    waiting : dict
        Shards that are not handed out yet.
    notes : dict
        The latest progress line of running shards.
    started : dict
        When running shards began, in seconds of ``time.monotonic``.
    """

    def __init__(self, plan: Plan, done: Collection[ArtifactRef]) -> None:
        self.waiting: dict[ArtifactRef, Shard[Parameters]] = {}
        for shard in plan.shards():
            if shard.ref not in done:
                self.waiting.setdefault(shard.ref, shard)
        self.notes: dict[ArtifactRef, str] = {}
        self.started: dict[ArtifactRef, float] = {}
        self._running: dict[ArtifactRef, Shard[Parameters]] = {}
        self._missing = {
            ref: {i for refs in shard.inputs.values() for i in refs if i in self.waiting}
            for ref, shard in self.waiting.items()
        }
        self._dependents: dict[ArtifactRef, list[ArtifactRef]] = defaultdict(list)
        for ref, missing in self._missing.items():
            for source in missing:
                self._dependents[source].append(ref)
        self._order = {
            ref: (_stage(shard), position) for position, (ref, shard) in enumerate(self.waiting.items())
        }
        self._ready = {ref for ref, missing in self._missing.items() if not missing}

    @property
    def finished(self) -> bool:
        """Whether no shard is ready or running."""
        return not self._ready and not self._running

    @property
    def running(self) -> list[Shard[Parameters]]:
        """Shards that are handed out and not finished."""
        return list(self._running.values())

    @property
    def unfinished(self) -> list[Shard[Parameters]]:
        """Shards that are running or waiting, each after its inputs."""
        return [*self._running.values(), *self.waiting.values()]

    def take(self, loaded: str = "") -> Shard[Parameters] | None:
        """Return the next shard for a worker that has the model `loaded`; None if no shard is ready."""
        if not self._ready:
            return None

        def rank(ref: ArtifactRef) -> tuple[bool, bool, tuple[int, int]]:
            resource = self.waiting[ref].resource
            return resource != "", resource != loaded, self._order[ref]

        ref = min(self._ready, key=rank)
        self._ready.remove(ref)
        shard = self.waiting.pop(ref)
        self._running[ref] = shard
        self.started[ref] = time.monotonic()
        return shard

    def finish(self, outcome: Outcome) -> list[Outcome]:
        """Note an outcome. Return it, and an outcome for every shard that can no longer be computed."""
        self._running.pop(outcome.ref, None)
        self.notes.pop(outcome.ref, None)
        self.started.pop(outcome.ref, None)
        if outcome.manifest is not None:
            for dependent in self._dependents[outcome.ref]:
                self._missing[dependent].discard(outcome.ref)
                if not self._missing[dependent] and dependent in self.waiting:
                    self._ready.add(dependent)
            return [outcome]
        outcomes = [outcome]
        for dependent in self._dependents[outcome.ref]:
            if dependent in self.waiting:
                del self.waiting[dependent]
                outcomes += self.finish(Outcome(dependent, failure=outcome.failure, blocked=True))
        return outcomes


def _stage(shard: Shard[Parameters]) -> int:
    return {"": 0, "llm": 1, "prm": 2, "search": 3}[shard.resource.partition(":")[0]]
