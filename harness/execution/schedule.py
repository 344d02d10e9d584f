"""Which shard comes next: dependencies, failures, and models kept loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from prmcal.harness.jobs.job import Shard
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Manifest

__all__ = ["Outcome", "Schedule"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a shard.

    Attributes
    ----------
    manifest : Manifest or None
        Of the artifact, if the shard was done.
    reason : str
        Why it failed, if it did.
    fatal : bool
        Whether the failure is the machine's (a full disk), so that the run must stop.
    """

    ref: ArtifactRef
    manifest: Manifest | None = None
    reason: str = ""
    fatal: bool = False


class Schedule:
    """Hands out shards whose inputs are there.

    Shards that need no model come first, since they complete cells; then those of the model that the asking worker
    has loaded; then of the first model, in the plan's order, LLMs before PRMs. So each model is loaded as few times
    as the dependencies allow.

    Parameters
    ----------
    plan : Plan
    done : collection of ArtifactRef
        Shards whose artifacts exist.

    Attributes
    ----------
    failed : dict
        Reasons, by shard.
    notes : dict
        What running shards last said of their progress.
    """

    def __init__(self, plan: Plan, done: Collection[ArtifactRef]) -> None:
        self.waiting: dict[ArtifactRef, Shard] = {}
        for shard in plan.shards():
            if shard.ref not in done:
                self.waiting.setdefault(shard.ref, shard)
        self.failed: dict[ArtifactRef, str] = {}
        self.notes: dict[ArtifactRef, str] = {}
        self._running: dict[ArtifactRef, Shard] = {}
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
        """Whether nothing is left to hand out or to wait for."""
        return not self._ready and not self._running

    @property
    def running(self) -> list[Shard]:
        """Shards handed out and not yet back."""
        return list(self._running.values())

    def take(self, loaded: str = "") -> Shard | None:
        """The next shard for a worker that has the model `loaded`; None if none is ready now."""
        if not self._ready:
            return None

        def rank(ref: ArtifactRef) -> tuple[bool, bool, tuple[int, int]]:
            resource = self.waiting[ref].resource
            return resource != "", resource != loaded, self._order[ref]

        ref = min(self._ready, key=rank)
        self._ready.remove(ref)
        shard = self.waiting.pop(ref)
        self._running[ref] = shard
        return shard

    def finish(self, outcome: Outcome) -> list[Outcome]:
        """Take note of an outcome. Returns it, and an outcome for every shard that can no longer be computed."""
        self._running.pop(outcome.ref, None)
        self.notes.pop(outcome.ref, None)
        if outcome.manifest is not None:
            for dependent in self._dependents[outcome.ref]:
                self._missing[dependent].discard(outcome.ref)
                if not self._missing[dependent] and dependent in self.waiting:
                    self._ready.add(dependent)
            return [outcome]
        self.failed[outcome.ref] = outcome.reason
        outcomes = [outcome]
        for dependent in self._dependents[outcome.ref]:
            if dependent in self.waiting:
                del self.waiting[dependent]
                outcomes += self.finish(Outcome(dependent, reason=outcome.reason))
        return outcomes


def _stage(shard: Shard) -> int:
    return {"": 0, "llm": 1, "prm": 2, "search": 3}[shard.resource.partition(":")[0]]
