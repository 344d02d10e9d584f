"""The costs of the remaining work of a plan, estimated from finished shards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from prmcal.harness.costs.assumptions import (
    completion_tokens,
    longest_completion,
    prefixes,
    seconds_without_model,
)
from prmcal.harness.costs.gpu_hours import assumed_seconds, billions, checkpoint_of
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    CalibratorParameters,
    GeneratingParameters,
    Parameters,
    RolloutParameters,
    SearchParameters,
    StrategyParameters,
)
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Manifest

__all__ = ["CostModel", "Work", "model_seconds", "remaining_work"]


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
    """

    def __init__(self, plan: Plan, past: Mapping[ArtifactRef, Manifest], on_gpus: bool = False) -> None:
        self._shards = {shard.ref: shard for shard in plan.shards()}
        assumed = _assumptions(plan, self._shards.values())
        self._modelled = {ref: runs_model for ref, (runs_model, _) in assumed.items()}
        self._assumed = {ref: seconds for ref, (_, seconds) in assumed.items()}
        self._on_gpus = on_gpus
        self._seen: dict[_Group, _Seen] = defaultdict(_Seen)
        self._loading: dict[_Group, _Seen] = defaultdict(_Seen)
        for ref, manifest in past.items():
            self.learn(ref, manifest)

    def learn(self, ref: ArtifactRef, manifest: Manifest) -> None:
        """Take a finished shard into account."""
        seen = self._loading if manifest.loading else self._seen
        seen[ref.kind,].add(manifest)
        shard = self._shards.get(ref)
        if shard is not None:
            for group in self._groups(shard):
                seen[group].add(manifest, self._assumed[ref])

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
        for seen in (self._seen, self._loading):
            found = self._like(shard, seen)
            if found is not None:
                return found
        if self._on_gpus or not self._runs_model(shard):
            return self._assumed[shard.ref]
        return None

    def _like(self, shard: Shard[Parameters], seen: Mapping[_Group, _Seen]) -> float | None:
        """Return the seconds that follow from finished shards; None if there are none to compare with."""
        found = next((seen[group] for group in self._groups(shard) if group in seen), None)
        if found is not None:
            return self._assumed[shard.ref] * found.seconds / found.assumed
        every = seen.get((shard.ref.kind,))  # Shards of other plans, of which only the size is known.
        return None if every is None else shard.size * every.seconds / every.size

    def _groups(self, shard: Shard[Parameters]) -> list[_Group]:
        """Return what the shard has in common with others, those most like it first."""
        kind, detail, data = shard.ref.kind, _detail(shard), shard.parameters.data.dataset.name
        own: list[_Group] = [
            (kind, shard.resource, detail, data),
            (kind, "", detail, data),
            (kind, shard.resource, detail, ""),
            (kind, "", detail, ""),
        ]
        # The times of different strategies have much in common, those of different calibrators have not.
        alike: list[_Group] = [] if isinstance(shard.parameters, CalibratorParameters) else [(kind, "all")]
        return [*own, *alike, ("all", self._runs_model(shard))]

    def _runs_model(self, shard: Shard[Parameters]) -> bool:
        return self._modelled[shard.ref]

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
        # Every prefix is followed up. A search samples all of its candidates for every step.
        candidates = parameters.candidates if isinstance(parameters, SearchParameters) else 1
        return shard.size * prefixes(parameters.sampling.max_tokens) * candidates

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
        groups = [*self._groups(shard)[:-1], (shard.ref.kind,)]
        return next((self._seen[group] for group in groups if group in self._seen), _Seen())


def _detail(shard: Shard[Parameters]) -> str:
    """Return which calibrator or strategy a shard is about, besides its model."""
    given = shard.parameters
    if isinstance(given, CalibratorParameters):
        return given.calibrator.plugin
    return given.strategy.plugin if isinstance(given, SearchParameters | StrategyParameters) else ""


def model_seconds(plan: Plan) -> Mapping[ArtifactRef, float]:
    """Return the seconds that the models of each shard are assumed to take on a GPU; 0 for shards without a model."""
    if plan.model_seconds is not None:
        return plan.model_seconds
    longest = longest_completion(plan)
    models = [(kind, each.reference) for kind in ("llm", "prm") for each in plan.plugins.get(kind, ())]
    sizes = [size for kind, each in models if (size := billions(checkpoint_of(kind, each))) is not None]
    unknown = sum(sizes) / len(sizes) if sizes else 1.0
    return {shard.ref: assumed_seconds(shard, longest, unknown) for shard in plan.shards()}


def _assumptions(plan: Plan, shards: Collection[Shard[Parameters]]) -> dict[ArtifactRef, tuple[bool, float]]:
    """Return for each shard whether it runs a model, and the seconds that are assumed for it."""
    on_models = model_seconds(plan)
    return {
        shard.ref: (on_models[shard.ref] > 0, on_models[shard.ref] or seconds_without_model(shard))
        for shard in shards
    }


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
        :mod:`prmcal.harness.costs.assumptions`.
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
    rows = []
    for kind in dict.fromkeys(job.kind for job in plan.jobs):
        jobs = [job for job in plan.jobs if job.kind == kind]
        shards = {shard.ref: shard for job in jobs for shard in job.shards}
        open_shards = [shard for ref, shard in shards.items() if ref not in done]
        rows.append(
            Work(
                kind,
                len(jobs),
                len(shards),
                len(shards) - len(open_shards),
                round(sum(map(cost.samples, open_shards))),
                round(sum(map(cost.tokens, open_shards))),
                cost.seconds(open_shards),
            )
        )
    return rows
