"""A plan: the jobs of a grid and the cells that they fill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeGuard, TypeVar

from prmcal.db.cells import cell_id
from prmcal.harness.jobs.job import Job, Labels, Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.resolved import GridPlugin, GridQuestions
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.registry.contracts.plugin import Plugin

__all__ = ["Cell", "Plan"]

AnyParameters = TypeVar("AnyParameters", bound=Parameters)


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of a leaderboard and the job that fills it.

    Attributes
    ----------
    leaderboard : {"calibration", "scaling"}
    strategy : str
        Empty on the calibration leaderboard.
    target, level : float or None
        The target probability C and the level beta, if the strategy has one.
    """

    leaderboard: Literal["calibration", "scaling"]
    labels: Labels
    job: Job[Parameters]
    strategy: str = ""
    target: float | None = None
    level: float | None = None

    @property
    def cell_id(self) -> str:
        """A readable name. It is the same in every run of the grid."""
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
    """The jobs of a grid and the cells that they fill.

    Attributes
    ----------
    jobs : tuple of Job
        Every job follows its inputs.
    cells : tuple of Cell
    plugins : mapping of str to sequence of GridPlugin
        The plugins of each kind, in the order of the grid.
    datasets : tuple of GridQuestions
        The splits in use, with their questions.
    absent : tuple of str
        Models and data that are not on this machine and that the plan does without.
    """

    jobs: tuple[Job[Parameters], ...]
    cells: tuple[Cell, ...]
    plugins: Mapping[str, Sequence[GridPlugin[Plugin]]]
    datasets: tuple[GridQuestions, ...]
    absent: tuple[str, ...] = ()
    _by_shard: dict[ArtifactRef, Job[Parameters]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._by_shard.update({shard.ref: job for job in self.jobs for shard in job.shards})

    def shards(self) -> Iterator[Shard[Parameters]]:
        """Yield the shards of all jobs, in their order. A shard that two jobs share is yielded twice."""
        for job in self.jobs:
            yield from job.shards

    def job_of(self, ref: ArtifactRef) -> Job[Parameters]:
        """Return the job that a shard belongs to."""
        return self._by_shard[ref]

    def jobs_of(self, parameters: type[AnyParameters]) -> list[Job[AnyParameters]]:
        """Return the jobs of one kind, by the class of their parameters."""
        return [job for job in self.jobs if _has(job, parameters)]


def _has(job: Job[Parameters], parameters: type[AnyParameters]) -> TypeGuard[Job[AnyParameters]]:
    return isinstance(job.shards[0].parameters, parameters)
