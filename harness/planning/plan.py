"""A plan: the jobs of a grid and the cells that they fill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prmcal.db.cells import cell_id
from prmcal.harness.jobs.job import Job, Labels, Shard
from prmcal.harness.storage.keys import ArtifactRef

__all__ = ["Cell", "Plan"]


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
