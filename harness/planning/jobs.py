"""Building the jobs of a plan and their shards, and leaving out shards that nothing reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from prmcal.harness.jobs.job import Job, Labels, Shard, job_key, shard_key
from prmcal.harness.jobs.parameters import Parameters, ScoreParameters
from prmcal.harness.planning.plan import Cell, PlannedPlugin
from prmcal.harness.storage.store import ArtifactRef

AnyParameters = TypeVar("AnyParameters", bound=Parameters)


def make_shard(
    identity: Mapping[str, Any],
    parameters: AnyParameters,
    inputs: Mapping[str, Sequence[ArtifactRef]],
    resource: str = "",
) -> Shard[AnyParameters]:
    """Make a shard whose key, and with it the seed, follows from `identity` and the inputs.

    `identity` is everything that decides the output besides the inputs, as JSON data. `inputs` are the artifacts that
    it reads, by role, and `resource` is the model that it needs loaded, if any.
    """
    ref = ArtifactRef(parameters.kind, shard_key(parameters.kind, parameters.version, identity, inputs))
    references = {role: tuple(refs) for role, refs in inputs.items()}
    return Shard(ref, parameters, references, resource, identity, parameters.version)


def make_job(
    labels: Labels, shards: Sequence[Shard[AnyParameters]], inputs: Sequence[Job[Parameters]] = ()
) -> Job[AnyParameters]:
    """Make a job of shards. Its key follows from theirs."""
    return Job(job_key([shard.ref for shard in shards]), labels, tuple(shards), tuple(inputs))


def without_unread_scores(
    jobs: Sequence[Job[Parameters]], cells: Sequence[Cell]
) -> tuple[tuple[Job[Parameters], ...], tuple[Cell, ...]]:
    """Leave out the shards with scores that no other shard reads. All other shards keep their keys."""
    inputs_of = {id(refs): refs for job in jobs for each in job.shards for refs in each.inputs.values()}
    read = {ref for refs in inputs_of.values() for ref in refs}
    kept: dict[int, Job[Parameters] | None] = {}
    for job in jobs:
        is_score = isinstance(job.shards[0].parameters, ScoreParameters)
        shards = [each for each in job.shards if each.ref in read] if is_score else job.shards
        inputs = tuple(new for each in job.inputs if (new := kept[id(each)]) is not None)
        same = len(shards) == len(job.shards) and [*map(id, inputs)] == [*map(id, job.inputs)]
        kept[id(job)] = job if same else make_job(job.labels, shards, inputs) if shards else None
    jobs = [new for job in jobs if (new := kept[id(job)]) is not None]
    return tuple(jobs), tuple(replace(cell, job=kept[id(cell.job)] or cell.job) for cell in cells)


def as_reference(given: Any) -> Any:
    """Return a parameter as a shard has it."""
    if isinstance(given, tuple):
        return tuple(map(as_reference, given))
    return given.reference if isinstance(given, PlannedPlugin) else given


def as_identity(given: Any) -> Any:
    """Return a parameter as a key has it. Metrics have names too, which are those of their columns."""
    if isinstance(given, tuple):
        return [[each.name, each.identity] for each in given]
    return given.identity if isinstance(given, PlannedPlugin) else given
