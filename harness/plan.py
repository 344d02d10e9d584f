"""A plan: the jobs of a grid, each with a content key, and the cells that they fill.

A job is split into shards, the atoms of work and of resume. A shard is a pure function from keyed inputs to one
artifact: everything that decides its output is in its key, everything it needs to run is in `parameters` and
`inputs`, both plain data, so that any executor can send it anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from db.cells import cell_id

__all__ = ["ArtifactRef", "Cell", "Job", "Labels", "Plan", "Shard"]


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """The address of an artifact: the kind of its job and the key of its shard."""

    kind: str
    key: str


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


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of a leaderboard and the job that fills it.

    Attributes
    ----------
    leaderboard : {"calibration", "scaling"}
    strategy : str
        Empty on the calibration leaderboard.
    target, level : float or None
        C and beta of IAS.
    """

    leaderboard: Literal["calibration", "scaling"]
    labels: Labels
    job: Job
    strategy: str = ""
    target: float | None = None
    level: float | None = None

    @property
    def cell_id(self) -> str:
        """Readable and stable: the same cell of the same grid has the same id in every run."""
        labels = self.labels
        return cell_id(
            self.leaderboard,
            labels.llm,
            labels.dataset,
            prm=labels.prm or None,
            calibrator=labels.calibrator or None,
            strategy=self.strategy or None,
            target=self.target,
            level=self.level,
        )


@dataclass(frozen=True)
class Plan:
    """All jobs in an order in which every job follows its inputs, and all cells.

    Attributes
    ----------
    absent : tuple of str
        Models and data that stand-ins are planned for, since they are not on this machine.
    """

    jobs: tuple[Job, ...]
    cells: tuple[Cell, ...]
    plugins: tuple[Mapping[str, Any], ...] = ()
    datasets: tuple[Mapping[str, Any], ...] = ()
    absent: tuple[str, ...] = ()
    _by_shard: dict[ArtifactRef, Job] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._by_shard.update({shard.ref: job for job in self.jobs for shard in job.shards})

    def shards(self) -> Iterator[Shard]:
        """All shards, each once, in the jobs' order."""
        for job in self.jobs:
            yield from job.shards

    def job_of(self, ref: ArtifactRef) -> Job:
        """The job that a shard belongs to."""
        return self._by_shard[ref]
