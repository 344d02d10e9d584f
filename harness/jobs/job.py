"""Jobs and their shards, each with a content key.

A shard is the unit of work and of resume. A shard is a pure function from keyed inputs to one artifact. Its key follows
from everything that decides its output. Its `parameters` and `inputs` are everything that it needs to run. Both are
plain data, so that an executor can run a shard anywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field

from prmcal.harness.jobs.parameters import Parameters, PluginReference
from prmcal.harness.storage.store import ArtifactRef, content_key

TUNING = "tuning_"
"""The beginning of the roles of inputs that belong to the calibration questions."""

TEXTS = "texts"
"""The role of the trajectories whose hidden states a calibrator reads, if they are computed and not stored."""

P_co = TypeVar("P_co", bound=Parameters, covariant=True)


class Refs(tuple[ArtifactRef, ...]):
    """Artifacts that are read together. Thousands of shards share this object, so that its hash is computed once."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["Refs"], tuple[tuple[ArtifactRef, ...]]]:
        return Refs, (tuple(self),)  # Another process has other hashes of texts.


@dataclass(frozen=True, slots=True)
class Shard(Generic[P_co]):
    """A unit of work."""

    ref: ArtifactRef
    """The address of its artifact."""
    parameters: P_co
    """The input of the job's function, of the class for its kind."""
    inputs: Mapping[str, tuple[ArtifactRef, ...]]
    """The artifacts that it reads, by role."""
    resource: str = ""
    """The model that it needs loaded, if any. Shards of one resource are run together."""
    identity: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The parameters as its key has them: with identities for plugins and the content of questions, as JSON data."""
    version: int = field(default=0, compare=False)
    """The version of its kind of job when the key was made."""
    reuses: tuple[ArtifactRef, ...] = field(default=(), compare=False)
    """Artifacts with texts that it takes over for equal requests. They do not change its output."""

    @property
    def size(self) -> int:
        """The amount of work, compared with shards of the same kind."""
        return self.parameters.size

    @property
    def models(self) -> list[tuple[Literal["llm", "prm"], PluginReference]]:
        """The models that it loads, each with its kind."""
        kinds: tuple[Literal["llm", "prm"], ...] = ("llm", "prm") if self.resource else ()
        references = [(kind, getattr(self.parameters, kind, None)) for kind in kinds]
        return [(kind, reference) for kind, reference in references if reference is not None]

    @property
    def gpus(self) -> int:
        """The number of GPUs that its largest model needs; 0 without a model."""
        return max((model.gpus for _, model in self.models), default=1 if self.resource else 0)


def shard_key(kind: str, version: int, identity: Mapping[str, Any], inputs: Mapping[str, Sequence[ArtifactRef]]) -> str:
    """Return the key of a shard, which follows from its kind, the version of this kind, its identity and its inputs."""
    keys = {role: [ref.key for ref in refs] for role, refs in inputs.items()}
    return content_key({"kind": kind, "version": version, "identity": identity, "inputs": keys})


def job_key(refs: Sequence[ArtifactRef]) -> str:
    """Return the key of a job, which follows from the keys of its shards."""
    return content_key({"job": refs[0].kind, "shards": [ref.key for ref in refs]})


Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
StrategyName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9 @._+-]*$")]
NoName = Literal[""]


@dataclass(frozen=True, slots=True)
class JobLabels:
    """The names in the grid of the data set and the plugins of a job or a cell; empty for kinds without one."""

    llm: Name | NoName = ""
    prm: Name | NoName = ""
    calibrator: Name | NoName = ""
    dataset: Name | NoName = ""
    split: str = ""

    def __str__(self) -> str:
        names = (self.llm, self.prm, self.calibrator, self.dataset and f"{self.dataset}/{self.split}")
        return ", ".join(name for name in names if name)


@dataclass(frozen=True, slots=True)
class Job(Generic[P_co]):
    """A node of the plan's graph. Jobs with the same key and the same names are equal."""

    key: str
    """Hash of the keys of its shards."""
    labels: JobLabels
    shards: tuple[Shard[P_co], ...] = field(compare=False)
    """At least one, all of one kind."""
    inputs: "tuple[Job[Parameters], ...]" = field(default=(), compare=False)
    """The jobs whose artifacts it reads."""
    refs: Refs = field(init=False, repr=False, compare=False)
    """The addresses of the artifacts of its shards. All shards that read the whole job share this tuple."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "refs", Refs(shard.ref for shard in self.shards))

    @property
    def kind(self) -> str:
        """The kind of its shards, which selects the function."""
        return self.shards[0].parameters.kind

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')} of {self.labels}"
