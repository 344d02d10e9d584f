"""The time that a run still needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from prmcal.harness.costs.estimate import CostModel
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.storage.keys import ArtifactRef

__all__ = ["seconds_left"]


def seconds_left(
    shards: Collection[Shard[Parameters]],
    cost: CostModel,
    workers: int,
    elapsed: Mapping[ArtifactRef, float] | None = None,
) -> float | None:
    """Return the seconds until shards are finished.

    Either all workers are busy to the end, or the longest chain of shards that wait for each other decides.

    Parameters
    ----------
    shards : collection of Shard
        The unfinished shards, each after its inputs.
    cost : CostModel
    workers : int
        The number of processes that work on them.
    elapsed : mapping of ArtifactRef to float, optional
        For running shards, the seconds since they began.

    Returns
    -------
    float or None
        None if the time of a shard cannot be estimated yet.
    """
    running = elapsed or {}
    total = longest = 0.0
    until: dict[ArtifactRef, float] = {}
    # By the identity of tuples of inputs, which shards that read the same artifacts share.
    inputs_until: dict[int, float] = {}
    for shard in shards:
        needed = cost.seconds([shard])
        if needed is None:
            return None
        needed = max(0.0, needed - running.get(shard.ref, 0.0))
        total += needed
        begin = 0.0
        for refs in shard.inputs.values():
            if id(refs) not in inputs_until:
                inputs_until[id(refs)] = max((until.get(ref, 0.0) for ref in refs), default=0.0)
            begin = max(begin, inputs_until[id(refs)])
        until[shard.ref] = begin + needed
        longest = max(longest, until[shard.ref])
    return max(total / workers, longest)
