"""What a job is: shards, each with a content key.

A shard is the unit of work and of resume. It is a pure function from keyed inputs to one artifact. Everything that
decides its output is in its key. Everything that it needs to run is in `parameters` and `inputs`, both plain data,
so that any executor can send it anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prmcal.harness.storage.keys import ArtifactRef

__all__ = ["Job", "Labels", "Shard"]


@dataclass(frozen=True, slots=True)
class Shard:
    """A unit of work.

    Attributes
    ----------
    ref : ArtifactRef
        Where its artifact is stored.
    parameters : mapping
        JSON data that the job's function reads.
    inputs : mapping of str to tuple of ArtifactRef
        Artifacts it reads, by role.
    resource : str
        The model it needs loaded, if any; shards of one resource are run together.
    size : int
        How much work it is, among shards of its kind: questions x trajectories x follow-ups.
    """

    ref: ArtifactRef
    parameters: Mapping[str, Any]
    inputs: Mapping[str, tuple[ArtifactRef, ...]]
    resource: str = ""
    size: int = 1


@dataclass(frozen=True, slots=True)
class Labels:
    """The grid's names for what a job or cell is about; empty where it does not apply."""

    llm: str = ""
    prm: str = ""
    calibrator: str = ""
    dataset: str = ""
    split: str = ""

    def __str__(self) -> str:
        parts = (self.llm, self.prm, self.calibrator, self.dataset and f"{self.dataset}/{self.split}")
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Job:
    """A node of the plan's graph.

    Attributes
    ----------
    key : str
        Hash of its shards' keys.
    kind : str
        Which function computes its shards.
    inputs : tuple of Job
        The jobs whose artifacts it reads.
    """

    key: str
    kind: str
    labels: Labels
    shards: tuple[Shard, ...]
    inputs: tuple[Job, ...] = ()
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')} of {self.labels}"
