"""The costs of a plan: samples, tokens and seconds, from finished shards where there are any, and the time left."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    CalibratorParameters,
    GeneratingParameters,
    MeasuringParameters,
    Parameters,
    RolloutParameters,
    SearchParameters,
    StrategyParameters,
    SuccessParameters,
)
from prmcal.harness.planning.gpu_hours import (
    completion_tokens,
    followed_up,
    model_seconds,
    prefixes,
)
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Manifest

_SECONDS_OF_REPLICATE = 1e-6
_SECONDS_OF_TRAJECTORY = 1e-3
_SECONDS_OF_SHARD = 0.05
"""Measured on one core with the grid `nano`: a replicate of one question, a trajectory that a calibrator reads, and the
reading and writing of files."""

_Group = tuple[str | bool, ...]
"""What finished shards have in common: the kind of job, the model, the calibrator or the strategy."""


@dataclass
class _Seen:
    size: int = 0
    seconds: float = 0.0
    assumed: float = 0.0
    samples: int = 0
    tokens: int = 0

    def add(self, manifest: Manifest, assumed: float = 0.0) -> None:
        self.size += manifest.size
        self.seconds += manifest.seconds
        self.assumed += assumed
        self.samples += manifest.samples
        self.tokens += manifest.generated_tokens + manifest.scored_tokens


@dataclass(frozen=True, slots=True)
class _Assumed:
    """What is assumed of a shard before any is finished: its seconds, and what it has in common with others."""

    kind: str
    seconds: float
    runs_model: bool
    groups: tuple[_Group, ...]


@dataclass(frozen=True, slots=True)
class _Rate:
    """The seconds of a shard, for each second that was assumed, or for each unit of its size."""

    of_assumed: float = 0.0
    of_size: float = 0.0


class CostModel:
    """The cost of shards, learnt from finished shards.

    The time of a shard follows from finished ones of the same kind of job with the same model and calibrator or
    strategy, in proportion to its size. As long as there are none, it follows from the next more general kind that has
    some, and at last from the assumptions about its tokens, in proportion to all finished shards that run a model.
    Shards that loaded a model count only as long as there are no others.

    Parameters
    ----------
    plan : Plan
    past : mapping of ArtifactRef to Manifest
        All finished shards, of this plan or of others.
    on_gpus : bool, default=False
        Whether the run has GPUs. The time is then estimated from the sizes of the models before any shard is finished.

    Attributes
    ----------
    model_seconds : mapping of ArtifactRef to float
        The seconds that the models of each shard are assumed to take on a GPU.
    """

    def __init__(self, plan: Plan, past: Mapping[ArtifactRef, Manifest], on_gpus: bool = False) -> None:
        self.model_seconds = model_seconds(plan)
        self._assumed = _assumptions(plan, self.model_seconds)
        self._on_gpus = on_gpus
        self._seen: dict[_Group, _Seen] = defaultdict(_Seen)
        self._loading: dict[_Group, _Seen] = defaultdict(_Seen)
        self._rates: dict[tuple[_Group, ...], _Rate | None] = {}
        for ref, manifest in past.items():
            self.learn(ref, manifest)

    def learn(self, ref: ArtifactRef, manifest: Manifest) -> None:
        """Take a finished shard into account."""
        seen = self._loading if manifest.loading else self._seen
        seen[ref.kind,].add(manifest)
        if ref in self._assumed:
            assumed = self._assumed[ref]
            for group in assumed.groups:
                seen[group].add(manifest, assumed.seconds)
        self._rates.clear()

    def seconds(self, shards: Iterable[Shard[Parameters]]) -> float | None:
        """Return the single-worker seconds for `shards`; None if one of them cannot be estimated yet."""
        total = 0.0
        for shard in shards:
            found = self._seconds(shard)
            if found is None:
                return None
            total += found
        return total

    def _seconds(self, shard: Shard[Parameters]) -> float | None:
        assumed = self._assumed[shard.ref]
        if assumed.groups not in self._rates:
            self._rates[assumed.groups] = self._rate(assumed)
        rate = self._rates[assumed.groups]
        return None if rate is None else rate.of_assumed * assumed.seconds + rate.of_size * shard.size

    def _rate(self, assumed: _Assumed) -> _Rate | None:
        """Return how the seconds of shards follow from finished ones; None if there are none to compare with."""
        for seen in (self._seen, self._loading):
            found = next((seen[group] for group in assumed.groups if group in seen), None)
            if found is not None:
                return _Rate(of_assumed=found.seconds / found.assumed)
            every = seen.get((assumed.kind,))  # Shards of other plans, of which only the size is known.
            if every is not None:
                return _Rate(of_size=every.seconds / every.size)
        return _Rate(of_assumed=1.0) if self._on_gpus or not assumed.runs_model else None

    def samples(self, shard: Shard[Parameters]) -> float:
        """Return the completions that a shard will sample: known for rollouts, estimated for other kinds."""
        parameters = shard.parameters
        if not isinstance(parameters, GeneratingParameters):
            return 0
        if isinstance(parameters, RolloutParameters):
            return shard.size
        seen = self._for(shard)
        if seen.size:
            return shard.size * (seen.samples / seen.size)
        longest = parameters.sampling.max_tokens
        if isinstance(parameters, SuccessParameters):
            return shard.size * followed_up(longest, parameters.most_prefixes)
        # A search samples all of its candidates for every step.
        candidates = parameters.candidates if isinstance(parameters, SearchParameters) else 1
        return shard.size * prefixes(longest) * candidates

    def tokens(self, shard: Shard[Parameters]) -> float:
        """Return the tokens of these completions; 0 if the shard samples none."""
        parameters = shard.parameters
        if not isinstance(parameters, GeneratingParameters):
            return 0
        seen = self._for(shard)
        each = seen.tokens / seen.samples if seen.samples else 0
        return self.samples(shard) * (each or completion_tokens(parameters))

    def _for(self, shard: Shard[Parameters]) -> _Seen:
        """Return the finished shards of the same kind that are most like this one."""
        groups = list(self._assumed[shard.ref].groups[:-1])
        if not isinstance(
            shard.parameters, SuccessParameters
        ):  # These may follow up other numbers of prefixes.
            groups.append((shard.ref.kind,))
        return next((self._seen[group] for group in groups if group in self._seen), _Seen())


def _detail(shard: Shard[Parameters]) -> str:
    """Return which calibrator or strategy a shard is about, or how many prefixes it may follow up."""
    given = shard.parameters
    if isinstance(given, SuccessParameters):
        return str(given.most_prefixes or "")
    if isinstance(given, CalibratorParameters):
        return given.calibrator.plugin
    return given.strategy.plugin if isinstance(given, SearchParameters | StrategyParameters) else ""


def _groups(shard: Shard[Parameters], runs_model: bool) -> tuple[_Group, ...]:
    """Return what a shard has in common with others, those most like it first."""
    kind, detail, data = shard.ref.kind, _detail(shard), shard.parameters.data.dataset.name
    own: list[_Group] = [
        (kind, shard.resource, detail, data),
        (kind, "", detail, data),
        (kind, shard.resource, detail, ""),
        (kind, "", detail, ""),
    ]
    # The times of different strategies have much in common, those of different calibrators or limits have not.
    apart = isinstance(shard.parameters, CalibratorParameters | SuccessParameters)
    alike: list[_Group] = [] if apart else [(kind, "all")]
    return (*own, *alike, ("all", runs_model))


def _seconds_without_model(shard: Shard[Parameters]) -> float:
    """Return the seconds of a shard that runs no model."""
    given = shard.parameters
    if isinstance(given, MeasuringParameters):
        return _SECONDS_OF_SHARD + _SECONDS_OF_REPLICATE * shard.size * given.bootstrap.replicates
    return _SECONDS_OF_SHARD + _SECONDS_OF_TRAJECTORY * shard.size


def _assumptions(plan: Plan, on_models: Mapping[ArtifactRef, float]) -> dict[ArtifactRef, _Assumed]:
    found = {}
    shared: dict[tuple[_Group, ...], tuple[_Group, ...]] = {}
    for shard in plan.shards():
        on_model = on_models[shard.ref]
        groups = _groups(shard, on_model > 0)
        seconds = on_model or _seconds_without_model(shard)
        found[shard.ref] = _Assumed(shard.ref.kind, seconds, on_model > 0, shared.setdefault(groups, groups))
    return found


@dataclass(frozen=True)
class Work:
    """The work of one kind of job in a plan.

    Attributes
    ----------
    kind : str
    jobs, shards, reused : int
        Jobs, their shards, and the finished ones among these.
    samples : int
        Completions that remain to be sampled. Estimated, except for rollouts.
    tokens : int
        Tokens of these completions, estimated from finished shards if there are any, otherwise from
        :mod:`prmcal.harness.planning.gpu_hours`.
    seconds : float or None
        Single-worker seconds of the remaining shards; None if they cannot be estimated yet.
    """

    kind: str
    jobs: int
    shards: int
    reused: int
    samples: int
    tokens: int
    seconds: float | None


def remaining_work(plan: Plan, done: Collection[ArtifactRef], cost: CostModel) -> list[Work]:
    """Return the work of a plan by kind of job, in the order in which it is done."""
    jobs = Counter(job.kind for job in plan.jobs)
    shards: dict[str, list[Shard[Parameters]]] = defaultdict(list)
    for shard in plan.shards():
        shards[shard.ref.kind].append(shard)
    rows = []
    for kind, count in jobs.items():
        open_shards = [shard for shard in shards[kind] if shard.ref not in done]
        rows.append(
            Work(
                kind,
                count,
                len(shards[kind]),
                len(shards[kind]) - len(open_shards),
                round(sum(map(cost.samples, open_shards))),
                round(sum(map(cost.tokens, open_shards))),
                cost.seconds(open_shards),
            )
        )
    return rows


def seconds_left(
    shards: Collection[Shard[Parameters]],
    cost: CostModel,
    workers: int,
    elapsed: Mapping[ArtifactRef, float] | None = None,
) -> float | None:
    """Return the seconds until shards are finished.

    Either all workers are busy to the end, or the longest chain of shards that wait for each other decides.

    Parameters
    ----------
    shards : collection of Shard
        The unfinished shards, each after its inputs.
    cost : CostModel
    workers : int
        The number of processes that work on them.
    elapsed : mapping of ArtifactRef to float, optional
        For running shards, the seconds since they began.

    Returns
    -------
    float or None
        None if the time of a shard cannot be estimated yet.
    """
    running = elapsed or {}
    total = longest = 0.0
    until: dict[ArtifactRef, float] = {}
    # By the identity of tuples of inputs, which shards that read the same artifacts share.
    inputs_until: dict[int, float] = {}
    for shard in shards:
        needed = cost.seconds([shard])
        if needed is None:
            return None
        needed = max(0.0, needed - running.get(shard.ref, 0.0))
        total += needed
        begin = 0.0
        for refs in shard.inputs.values():
            if id(refs) not in inputs_until:
                inputs_until[id(refs)] = max((until.get(ref, 0.0) for ref in refs), default=0.0)
            begin = max(begin, inputs_until[id(refs)])
        until[shard.ref] = begin + needed
        longest = max(longest, until[shard.ref])
    return max(total / workers, longest)
