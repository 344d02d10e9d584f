"""Plans of shards that compute nothing, and the count of functions that are called to work with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from prmcal.harness.jobs.job import Job, JobLabels, Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef


@dataclass(frozen=True)
class AnyParameters(Parameters):
    kind = "any"


def ref(number: int) -> ArtifactRef:
    return ArtifactRef(AnyParameters.kind, str(number))


def planned(inputs: Sequence[Mapping[str, tuple[ArtifactRef, ...]]], resources: Sequence[str]) -> Plan:
    """A plan of one job, whose shards have these inputs and need these models."""
    shards = [
        Shard(ref(number), AnyParameters(), each, resource)
        for number, (each, resource) in enumerate(zip(inputs, resources, strict=True))
    ]
    return Plan((Job("job", JobLabels(), tuple(shards)),), (), {}, ())


def calls(function: Callable[[], object]) -> int:
    """The functions that are called, also those of C."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count
