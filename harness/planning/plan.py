"""A plan: the jobs of a grid and the cells that they fill."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeGuard, TypeVar

from prmcal.db.metrics import Leaderboard, Metric, cell_id
from prmcal.harness.jobs.job import Job, Labels, Shard
from prmcal.harness.jobs.parameters import Parameters, PluginReference
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.plugin import Plugin

__all__ = ["Cell", "Plan", "PlannedPlugin", "PlannedQuestions"]

AnyParameters = TypeVar("AnyParameters", bound=Parameters)
AnyPlugin_co = TypeVar("AnyPlugin_co", bound=Plugin, covariant=True)


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of a leaderboard and the job that fills it.

    Attributes
    ----------
    leaderboard : {"calibration", "scaling", "league"}
    strategy : str
        Empty on the calibration leaderboard.
    target, level : float or None
        The target probability C and the level beta, if the strategy has one.
    """

    leaderboard: Leaderboard
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
class PlannedPlugin(Generic[AnyPlugin_co]):
    """A plugin of a grid.

    Attributes
    ----------
    reference : PluginReference
        Its name in the grid, and what a shard needs to build it.
    identity : mapping of str to JSON data
        What the keys contain of it.
    citation : str
        Where it was published; empty if it was not.
    absent : str
        The checkpoint that the plan does without, because it is not on this machine; or empty.
    instance : Plugin or None
        The plugin while a grid is planned, without its model. A saved plan has none.
    """

    reference: PluginReference
    identity: Mapping[str, Any]
    citation: str = ""
    absent: str = ""
    instance: AnyPlugin_co | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name in the grid."""
        return self.reference.name

    @property
    def built(self) -> AnyPlugin_co:
        """The plugin, without its model. Only the plan that is being made has it."""
        if self.instance is None:
            raise ValueError("A saved plan has no built plugins.")
        return self.instance

    def data(self) -> dict[str, Any]:
        """Return everything but the plugin itself as JSON data."""
        return {
            "reference": asdict(self.reference),
            "identity": self.identity,
            "citation": self.citation,
            "absent": self.absent,
        }


@dataclass(frozen=True, slots=True)
class PlannedQuestions:
    """The questions of one data set and split.

    Attributes
    ----------
    name : str
        The name of the data set in the grid.
    split : str
    content_hash : str
        The hash of the questions.
    grader_version : str
    questions : tuple of Question
    """

    name: str
    split: str
    content_hash: str
    grader_version: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Plan:
    """The jobs of a grid and the cells that they fill. It is data, which :mod:`prmcal.harness.planning.saved` saves.

    Attributes
    ----------
    jobs : tuple of Job
        Every job follows its inputs.
    cells : tuple of Cell
    plugins : mapping of str to tuple of PlannedPlugin
        The plugins of each kind, in the order of the grid.
    datasets : tuple of PlannedQuestions
        The splits in use, with their questions.
    metrics : tuple of Metric
        What readers see of the metrics of both leaderboards, in the order of columns.
    absent : tuple of str
        Models and data that are not on this machine and that the plan does without.
    model_seconds : mapping of ArtifactRef to float, optional
        The seconds that the models of each shard are assumed to take on a GPU. A saved plan has them, because they
        follow from the classes of the plugins.
    """

    jobs: tuple[Job[Parameters], ...]
    cells: tuple[Cell, ...]
    plugins: Mapping[str, tuple[PlannedPlugin[Plugin], ...]]
    datasets: tuple[PlannedQuestions, ...]
    metrics: tuple[Metric, ...] = ()
    absent: tuple[str, ...] = ()
    model_seconds: Mapping[ArtifactRef, float] | None = None
    _shards: dict[ArtifactRef, Shard[Parameters]] = field(default_factory=dict, repr=False, compare=False)
    _owners: dict[ArtifactRef, list[Job[Parameters]]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for job in {job.key: job for job in self.jobs}.values():
            for shard in job.shards:
                self._shards.setdefault(shard.ref, shard)
                self._owners.setdefault(shard.ref, []).append(job)

    def shards(self) -> Collection[Shard[Parameters]]:
        """Return a view of the shards of all jobs, in their order. A shard that two jobs share is there once."""
        return self._shards.values()

    def owners(self, ref: ArtifactRef) -> Sequence[Job[Parameters]]:
        """Return the jobs that a shard belongs to. Most shards belong to one."""
        return self._owners[ref]

    def job_of(self, ref: ArtifactRef) -> Job[Parameters]:
        """Return the first of the jobs that a shard belongs to."""
        return self._owners[ref][0]

    def jobs_of(self, parameters: type[AnyParameters]) -> list[Job[AnyParameters]]:
        """Return the jobs of one kind, by the class of their parameters."""
        return [job for job in self.jobs if _has(job, parameters)]


def _has(job: Job[Parameters], parameters: type[AnyParameters]) -> TypeGuard[Job[AnyParameters]]:
    return isinstance(job.shards[0].parameters, parameters)
