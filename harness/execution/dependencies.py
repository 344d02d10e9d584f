"""The shards that can run now, because they read only finished artifacts."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.storage.store import ArtifactRef


@dataclass(slots=True)
class _Gate:
    """The shards that read the same artifacts. They wait until all of these are finished."""

    unfinished: int
    """Number of the artifacts that are unfinished."""
    needed: bool
    """False if only texts are taken over from the artifacts. A failed one then does not matter."""
    readers: list[ArtifactRef] = field(default_factory=list)


class Dependencies:
    """The unfinished shards of a run, and the inputs that they wait for.

    Thousands of shards read the same artifacts. Such shards share one gate, so that all n shards take O(n) steps.

    Attributes
    ----------
    unfinished : dict of ArtifactRef to Shard
        The shards that are running or waiting, in the order of the plan: each after its inputs.
    """

    def __init__(self, shards: Iterable[Shard[Parameters]]) -> None:
        self.unfinished = {shard.ref: shard for shard in shards}
        self._gates_after: dict[ArtifactRef, list[_Gate]] = defaultdict(list)
        self._closed_gates: Counter[ArtifactRef] = Counter()  # Before each shard that waits.
        self._inputs: set[ArtifactRef] = set()  # The unfinished shards that others need.
        gates: dict[tuple[tuple[ArtifactRef, ...], bool], _Gate] = {}
        for ref, shard in self.unfinished.items():
            for refs, needed in [*((refs, True) for refs in shard.inputs.values()), (shard.reuses, False)]:
                if (refs, needed) not in gates:
                    gates[refs, needed] = self._new_gate(refs, needed)
                gate = gates[refs, needed]
                if gate.unfinished:
                    gate.readers.append(ref)
                    self._closed_gates[ref] += 1

    def _new_gate(self, refs: Collection[ArtifactRef], needed: bool) -> _Gate:
        unfinished = [ref for ref in refs if ref in self.unfinished]
        gate = _Gate(len(unfinished), needed)
        if needed:
            self._inputs.update(unfinished)
        for ref in unfinished:
            self._gates_after[ref].append(gate)
        return gate

    def ready(self) -> list[ArtifactRef]:
        """Return the unfinished shards that wait for nothing, in the order of the plan."""
        return [ref for ref in self.unfinished if not self._closed_gates[ref]]

    def remove(self, ref: ArtifactRef) -> bool:
        """Remove a shard that will not be computed. Return whether the shard was there."""
        return self.unfinished.pop(ref, None) is not None

    def finish(self, ref: ArtifactRef) -> list[ArtifactRef]:
        """Remove a shard that is computed. Return the shards that are ready since then."""
        del self.unfinished[ref]
        return [reader for gate in self._gates_after.pop(ref, ()) for reader in self._pass(gate)]

    def fail(self, ref: ArtifactRef) -> tuple[list[ArtifactRef], list[ArtifactRef]]:
        """Remove a shard that failed, and all that need it, directly or through others.

        Return the shards that need it, and the shards that are now ready because they would only have taken over texts.
        """
        self.remove(ref)
        blocked: list[ArtifactRef] = []
        ready: list[ArtifactRef] = []
        failed = [ref]
        while failed:
            for gate in self._gates_after.pop(failed.pop(), ()):
                if gate.needed:
                    removed = [reader for reader in gate.readers if self.remove(reader)]
                    gate.readers.clear()
                    blocked += removed
                    failed += removed
                else:
                    ready += self._pass(gate)
        return blocked, [reader for reader in ready if reader in self.unfinished]

    def unread(self) -> list[ArtifactRef]:
        """Return the unfinished shards that other shards needed, but no longer need."""
        inputs = {refs for shard in self.unfinished.values() for refs in shard.inputs.values()}
        unread = self._inputs - {ref for refs in inputs for ref in refs}
        return [ref for ref in self.unfinished if ref in unread]

    def _pass(self, gate: _Gate) -> list[ArtifactRef]:
        """Note that one artifact more before a gate is not unfinished. Return the shards that are ready since then."""
        gate.unfinished -= 1
        if gate.unfinished:
            return []
        self._closed_gates.subtract(gate.readers)
        readers = dict.fromkeys(gate.readers)  # One may read the same artifacts in two roles.
        return [ref for ref in readers if not self._closed_gates[ref] and ref in self.unfinished]
