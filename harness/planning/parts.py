"""The parts of a plan: shards with their keys, jobs of shards, and the jobs that a grid's cells rest on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prmcal.harness.jobs import JOB_VERSIONS
from prmcal.harness.jobs.job import Job, Labels, Shard
from prmcal.harness.planning.grid import CalibrationSpec
from prmcal.harness.planning.resolved import GridPlugin, GridQuestions
from prmcal.harness.storage.keys import ArtifactRef, content_key, seed_from_key
from prmcal.registry.contracts.strategy import Strategy

__all__ = [
    "PoolJobs",
    "Scored",
    "first_trajectories",
    "imported_shards",
    "make_job",
    "make_shard",
    "read_jobs",
    "refs_of",
]


def make_job(kind: str, labels: Labels, shards: Sequence[Shard], inputs: Sequence[Job] = ()) -> Job:
    """A job of some shards, its key made of theirs."""
    key = content_key({"job": kind, "shards": [shard.ref.key for shard in shards]})
    return Job(key, kind, labels, tuple(shards), tuple(inputs), seed_from_key(shards[0].ref.key))


def make_shard(
    kind: str,
    identity: Mapping[str, Any],
    parameters: Mapping[str, Any],
    inputs: Mapping[str, Sequence[ArtifactRef]],
    resource: str = "",
) -> Shard:
    """A shard with the key, and the seed, that follow from `identity` and the inputs."""
    references = {role: tuple(refs) for role, refs in inputs.items()}
    key = content_key(
        {
            "kind": kind,
            "version": JOB_VERSIONS[kind],
            "identity": identity,
            "inputs": {role: [ref.key for ref in refs] for role, refs in references.items()},
        }
    )
    seeded = {**parameters, "seed": seed_from_key(key)}
    return Shard(ArtifactRef(kind, key), seeded, references, resource, _size(parameters))


def _size(parameters: Mapping[str, Any]) -> int:
    ranges = [parameters[name] for name in ("questions", "trajectories", "follow_ups") if name in parameters]
    return math.prod(stop - start for start, stop in ranges)


def refs_of(*jobs: Job) -> list[ArtifactRef]:
    """The artifacts of all shards of some jobs."""
    return [shard.ref for job in jobs for shard in job.shards]


def first_trajectories(rollout: Shard, measured: int) -> list[int]:
    """Which trajectories of a rollout shard are among the first `measured`."""
    start, stop = rollout.parameters["trajectories"]
    return [start, min(stop, measured)]


def imported_shards(llm: GridPlugin, data: GridQuestions, calibration: CalibrationSpec) -> list[Shard]:
    """Shards of published trajectories of an LLM that were followed up already, in the place of a rollout's."""
    parameters = {
        "trajectories": [0, calibration.trajectories],
        "follow_ups": [0, calibration.follow_ups],
    }
    return [
        make_shard(
            "imported",
            {
                **parameters,
                "data": data.key(first, last),
                "published": data.dataset.built.content(llm.spec.name),
            },
            {
                **parameters,
                "llm": llm.parameters,
                "dataset": data.dataset.parameters,
                "split": data.split,
                "questions": [first, last],
            },
            {},
        )
        for first, last in data.slices()
    ]


@dataclass(frozen=True)
class Scored:
    """One data set's jobs under one (LLM, PRM). `hidden` is there if a calibrator of the grid reads it."""

    data: GridQuestions
    measured: int
    rollout: Job
    success: Job
    scores: Job
    hidden: Job | None


@dataclass(frozen=True)
class PoolJobs:
    """The jobs that hold a pool, and what there is to read of it: scores, and rewards at a level beta.

    A search starts from the same place, but with the models themselves: LLM, PRM and calibrator, and its fit.
    """

    data: GridQuestions
    rollout: Job
    success: Job
    scores: Job | None = None
    calibrated: Job | None = None
    level: float | None = None
    models: tuple[GridPlugin, ...] = ()
    fit: Job | None = None

    def suits(self, strategy: Strategy) -> bool:
        """Whether the strategy reads the last of what is here, so that it is run once for each of them."""
        if self.calibrated is not None:
            return "rewards" in strategy.reads
        if self.scores is not None:
            return "scores" in strategy.reads and "rewards" not in strategy.reads
        return "scores" not in strategy.reads and "rewards" not in strategy.reads

    def inputs(self, strategy: Strategy) -> dict[str, list[Job]]:
        """The jobs whose artifacts the strategy reads, by role."""
        found = {"scores": ("score", self.scores), "rewards": ("calibrated", self.calibrated)}
        found["success"] = ("success", self.success)
        read = {role: [job] for name, (role, job) in found.items() if job and name in strategy.reads}
        return {"rollout": [self.rollout], **read}


def read_jobs(data: Scored, calibrator: GridPlugin) -> list[Job]:
    """The jobs whose artifacts a calibrator reads."""
    extra = {"hidden": data.hidden, "prm": data.rollout}.get(calibrator.built.reads)
    return [data.scores, *([extra] if extra is not None else [])]
