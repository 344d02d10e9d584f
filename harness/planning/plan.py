"""A plan: the jobs of a grid and the cells that they fill, a part of it for a run, and how jobs are made."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from typing import Any, Generic, Self, TypeVar, cast

from pydantic import SkipValidation

from prmcal.db.metrics import Leaderboard, MetricColumn, cell_id
from prmcal.errors import GridError
from prmcal.harness.jobs.job import Job, JobLabels, Name, NoName, Refs, Shard, StrategyName, job_key, shard_key
from prmcal.harness.jobs.parameters import Parameters, PluginReference, ScoreParameters, plain_data
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.plugin import Plugin, Share
from prmcal.registry.messages import meant

AnyParameters = TypeVar("AnyParameters", bound=Parameters)
AnyPlugin_co = TypeVar("AnyPlugin_co", bound=Plugin, covariant=True)

Only = Mapping[str, Sequence[str]]
"""Names in the grid by their kind: llm, prm, calibrator, dataset or strategy."""

_KINDS = ("llm", "prm", "calibrator", "dataset", "strategy")


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """One line of a leaderboard and the job that fills it."""

    leaderboard: Leaderboard
    labels: JobLabels
    job: SkipValidation[Job[Parameters]]
    strategy: StrategyName | NoName = ""
    """Empty on the calibration leaderboard."""
    target: Share | None = None
    level: Share | None = None
    """The target probability C and the level beta, if the strategy has one."""
    source: str = ""
    """The id of the run that measured it; empty for the run of the folder."""
    difference: str = ""
    """The difference of another run under the same key, such as ``brier 0.0081``; empty if no difference is known."""

    @property
    def cell_id(self) -> str:
        """A readable name. It is the same in every run of the grid."""
        names = {kind: getattr(self.labels, kind) for kind in ("llm", "prm", "calibrator", "dataset")}
        return cell_id(self.leaderboard, **names, strategy=self.strategy, target=self.target, level=self.level)


@dataclass(frozen=True)
class PlannedPlugin(Generic[AnyPlugin_co]):
    """A plugin of a grid."""

    reference: PluginReference
    """Its name in the grid, and the data from which a shard builds it."""
    identity: Mapping[str, Any]
    """The part of the plugin that keys contain."""
    citation: str = ""
    """Where it was published; empty if unpublished."""
    absent: str = ""
    """The checkpoint that is not on this machine, so that the plan does without; or empty."""
    instance: AnyPlugin_co | None = field(default=None, repr=False, compare=False)
    """The plugin while a grid is planned, without its model. A saved plan has no built plugins."""

    @property
    def name(self) -> str:
        """The name in the grid."""
        return self.reference.name

    @property
    def built(self) -> AnyPlugin_co:
        """The plugin, without its model. Only a plan in the making has it."""
        if self.instance is None:
            raise ValueError("A saved plan has no built plugins.")
        return self.instance


@dataclass(frozen=True, slots=True)
class PlannedQuestions:
    """The questions of one data set and split."""

    name: Name
    """The name of the data set in the grid."""
    split: str
    content_hash: str
    """The hash of the questions."""
    grader_version: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Plan:
    """The jobs of a grid and the cells that they fill. A plan is data, see :mod:`prmcal.harness.planning.saved`."""

    jobs: tuple[Job[Parameters], ...]
    """Every job follows its inputs."""
    cells: tuple[PlannedCell, ...]
    plugins: Mapping[str, tuple[PlannedPlugin[Plugin], ...]]
    """The plugins of each kind, in the order of the grid."""
    datasets: tuple[PlannedQuestions, ...]
    """The splits in use, with their questions."""
    metrics: tuple[MetricColumn, ...] = ()
    """The words for the metrics of both leaderboards, in the order of columns."""
    absent: tuple[str, ...] = ()
    """Models and data that are not on this machine and that the plan does without."""
    repeated: int = field(default=0, compare=False)
    """The questions whose text occurs before, in the same or another data set. A saved plan does not know them."""
    _shards: dict[ArtifactRef, Shard[Parameters]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _owners: dict[ArtifactRef, list[Job[Parameters]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for job in {job.key: job for job in self.jobs}.values():
            for shard in job.shards:
                self._shards.setdefault(shard.ref, shard)
                self._owners.setdefault(shard.ref, []).append(job)

    def shards(self) -> Collection[Shard[Parameters]]:
        """Return a view of the shards of all jobs, in their order. A shard that two jobs share is there once."""
        return self._shards.values()

    def owners(self, ref: ArtifactRef) -> Sequence[Job[Parameters]]:
        """Return the jobs that a shard belongs to. Most shards belong to a single job."""
        return self._owners[ref]

    def job_of(self, ref: ArtifactRef) -> Job[Parameters]:
        """Return the first of the jobs that a shard belongs to."""
        return self._owners[ref][0]

    def jobs_of(self, parameters: type[AnyParameters]) -> list[Job[AnyParameters]]:
        """Return the jobs of one kind, by the class of their parameters."""
        jobs: list[Any] = [job for job in self.jobs if isinstance(job.shards[0].parameters, parameters)]
        return jobs

    def cells_with(self, only: Only) -> list[PlannedCell]:
        """Return the cells that have certain names.

        For each kind in `only`, a cell must have one of the names. Without kinds, all cells are returned. Raises a
        GridError if no cell has such a name or such a combination.
        """
        for kind, names in only.items():
            if kind not in _KINDS:
                raise GridError(f"A part of a grid is chosen by {', '.join(_KINDS)}. Got '{kind}'.")
            names_of_kind = dict.fromkeys(name for cell in self.cells if (name := _name(cell, kind)))
            for name in names:
                if name not in names_of_kind:
                    hint = meant(name, names_of_kind, f"It has: {', '.join(names_of_kind) or 'none'}.")
                    raise GridError(f"The grid has no {kind} '{name}'. {hint}")
        cells = [cell for cell in self.cells if all(_name(cell, kind) in names for kind, names in only.items())]
        if not cells:
            criteria = ", ".join(f"{kind} {' or '.join(names)}" for kind, names in only.items())
            raise GridError(f"No cell of the grid has all of: {criteria}.")
        return cells

    def part(self, cells: Collection[PlannedCell]) -> Self:
        """Return the part that computes some of the cells; the plan itself for all of them.

        It has all jobs that the cells need. The part also has jobs that no cell needs, such as curves, if all their
        inputs are in it.
        """
        if len(cells) == len(self.cells):
            return self
        needed = {job.key for job in with_inputs(cell.job for cell in cells)}
        read = {source.key for job in self.jobs for source in job.inputs} | {cell.job.key for cell in self.cells}
        jobs = [
            job
            for job in self.jobs
            if job.key in needed or (job.key not in read and all(source.key in needed for source in job.inputs))
        ]
        labels = [job.labels for job in jobs]
        names = {name for label in labels for name in (label.llm, label.prm, label.dataset)}
        models = [*self.plugins["llm"], *self.plugins["prm"]]
        used_names = names | {plugin.absent for plugin in models if plugin.name in names}
        absent = tuple(name for name in self.absent if name in used_names)
        return replace(self, jobs=tuple(jobs), cells=tuple(cells), absent=absent)


def _name(cell: PlannedCell, kind: str) -> str:
    """Return the name of a kind in a cell; empty if the cell has none."""
    name: str = cell.strategy if kind == "strategy" else getattr(cell.labels, kind)
    return name


def with_inputs(jobs: Iterable[Job[Parameters]]) -> list[Job[Parameters]]:
    """Return jobs and all jobs that they need, each once."""
    chosen: dict[Job[Parameters], None] = {}
    waiting = list(jobs)
    while waiting:
        job = waiting.pop()
        if job not in chosen:
            chosen[job] = None
            waiting += job.inputs
    return list(chosen)


def joined_plans(plans: Sequence[Plan]) -> Plan:
    """Return one plan for the parts of a grid. Plugins and data sets with one name in several plans are there once.

    Raises a GridError if two parts fill the same cell.
    """
    if len(plans) == 1:
        return plans[0]
    cells = tuple(cell for plan in plans for cell in plan.cells)
    twice = [name for name, count in Counter(cell.cell_id for cell in cells).items() if count > 1]
    if twice:
        raise GridError(f"Two parts of the grid have the cell {twice[0]}. Give their LLMs or data sets other names.")
    return Plan(
        jobs=tuple(job for plan in plans for job in plan.jobs),
        cells=cells,
        plugins={
            kind: tuple({plugin.name: plugin for plan in plans for plugin in plan.plugins[kind]}.values())
            for kind in plans[0].plugins
        },
        datasets=tuple({(data.name, data.split): data for plan in plans for data in plan.datasets}.values()),
        metrics=tuple({metric.name: metric for plan in plans for metric in plan.metrics}.values()),
        absent=tuple(dict.fromkeys(name for plan in plans for name in plan.absent)),
        repeated=max(plan.repeated for plan in plans),
    )


def make_shard(
    kind: type[AnyParameters],
    content: Callable[[range, bool], str],
    inputs: Mapping[str, Sequence[ArtifactRef]],
    resource: str = "",
    /,
    **fields: Any,
) -> Shard[AnyParameters]:
    """Make a shard of a kind of job.

    `fields` are its parameters, in which plugins stand for their references. Its key follows from the keys of its
    inputs and from all parameters, with identities in place of plugins and the content of the questions in place of the
    data. `content` returns the hash of questions, with or without all but their ids and texts. `inputs` are the
    artifacts that it reads, by role, and `resource` is the model that it needs, if any.
    """
    parameters = kind(**{name: as_reference(value) for name, value in fields.items()})
    names = [field.name for field in dataclass_fields(cast(Any, parameters))]
    identity = {name: as_identity(fields.get(name, getattr(parameters, name))) for name in names}
    identity["data"] = content(parameters.data.questions, kind.reads_references)
    ref = ArtifactRef(kind.kind, shard_key(kind.kind, kind.version, identity, inputs))
    references = {role: refs if isinstance(refs, Refs) else Refs(refs) for role, refs in inputs.items()}
    return Shard(ref, parameters, references, resource, identity, kind.version)


def make_job(
    labels: JobLabels, shards: Sequence[Shard[AnyParameters]], inputs: Sequence[Job[Parameters]] = ()
) -> Job[AnyParameters]:
    """Make a job of shards. The job's key follows from their keys."""
    return Job(job_key([shard.ref for shard in shards]), labels, tuple(shards), tuple(inputs))


def without_unread_scores(
    jobs: Sequence[Job[Parameters]], cells: Sequence[PlannedCell]
) -> tuple[tuple[Job[Parameters], ...], tuple[PlannedCell, ...]]:
    """Leave out the shards with scores that no other shard reads. All other shards keep their keys."""
    inputs_of_shards = {refs for job in jobs for shard in job.shards for refs in shard.inputs.values()}
    read = {ref for refs in inputs_of_shards for ref in refs}
    trimmed: dict[Job[Parameters], Job[Parameters] | None] = {}
    for job in jobs:
        is_score = isinstance(job.shards[0].parameters, ScoreParameters)
        shards = [shard for shard in job.shards if shard.ref in read] if is_score else job.shards
        inputs = tuple(new for source in job.inputs if (new := trimmed[source]) is not None)
        if len(shards) == len(job.shards) and all(trimmed[source] is source for source in job.inputs):
            trimmed[job] = job
        else:
            trimmed[job] = make_job(job.labels, shards, inputs) if shards else None
    jobs = [new for job in jobs if (new := trimmed[job]) is not None]
    return tuple(jobs), tuple(replace(cell, job=trimmed[cell.job] or cell.job) for cell in cells)


def as_reference(value: Any) -> Any:
    """Return a parameter in the form of a shard."""
    if isinstance(value, tuple):
        return tuple(map(as_reference, value))
    return value.reference if isinstance(value, PlannedPlugin) else value


def as_identity(value: Any) -> Any:
    """Return a parameter in the form of a key. Metrics also have names: their columns."""
    if isinstance(value, tuple):
        return [[entry.name, entry.identity] if isinstance(entry, PlannedPlugin) else entry for entry in value]
    return value.identity if isinstance(value, PlannedPlugin) else plain_data(value)
