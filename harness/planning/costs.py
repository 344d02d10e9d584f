"""The costs of a plan: assumed samples and tokens, seconds from finished shards, and the time left."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.job import Shard
from prmcal.harness.planning.gpu_hours import completions, generated_tokens
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Manifest

_SECONDS_WITHOUT_MODEL = 0.05
"""Seconds of a shard without a model, until one is finished."""
_ENOUGH = 0.05
"""The share of all work that is finished before a time left is estimated. The first shards are small."""


class CostModel:
    """The cost of the shards of a plan, learnt from finished ones.

    The time of a shard is estimated from finished shards of the same kind of job, in proportion to its work. Shards
    with a model and shards without one are counted separately. Until a shard of this kind is finished, shards of all
    kinds count. For a shard with a model they are those with a model, else those without.

    `done` are the finished shards.
    """

    def __init__(self, plan: Plan, done: Mapping[ArtifactRef, Manifest]) -> None:
        self._work = {shard.ref: completions(shard.parameters) or shard.size for shard in plan.shards()}
        self._runs_model = {shard.ref: bool(shard.resource) for shard in plan.shards()}
        # Totals of finished shards, by kind of job and by whether a model runs, and of all kinds by an empty name.
        self._finished_work: dict[tuple[str, bool], float] = defaultdict(float)
        self._finished_seconds: dict[tuple[str, bool], float] = defaultdict(float)
        self.spent = 0.0
        """Seconds of the finished shards."""
        for ref, manifest in done.items():
            self.learn(ref, manifest)

    def learn(self, ref: ArtifactRef, manifest: Manifest) -> None:
        """Take a finished shard into account."""
        self.spent += manifest.seconds
        for kind in (ref.kind, ""):
            self._finished_work[kind, self._runs_model[ref]] += self._work[ref]
            self._finished_seconds[kind, self._runs_model[ref]] += manifest.seconds

    def seconds(self, shards: Iterable[Shard[parameters.Parameters]]) -> float | None:
        """Return the single-worker seconds for `shards`; None if one of them cannot be estimated yet."""
        total = 0.0
        for ref in (shard.ref for shard in shards):
            runs_model = self._runs_model[ref]
            groups = [(kind, runs_model) for kind in (ref.kind, "") if (kind, runs_model) in self._finished_work]
            if groups:
                total += self._work[ref] * self._finished_seconds[groups[0]] / self._finished_work[groups[0]]
            elif runs_model:
                return None
            else:
                total += _SECONDS_WITHOUT_MODEL
        return total


@dataclass(frozen=True)
class Work:
    """The work of one kind of job in a plan."""

    kind: str
    jobs: int
    shards: int
    reused: int
    """Jobs, their shards, and the finished ones among these."""
    samples: int
    tokens: int
    """Completions that remain to be sampled, and their tokens, as :mod:`prmcal.harness.planning.gpu_hours` assumes."""
    seconds: float | None
    """Single-worker seconds of the remaining shards; None if they cannot be estimated yet."""


def remaining_work(plan: Plan, done: Collection[ArtifactRef], cost: CostModel) -> list[Work]:
    """Return the work of a plan by kind of job, in the order in which it is done."""
    rows = []
    for kind, jobs in Counter(job.kind for job in plan.jobs).items():
        shards = [shard for shard in plan.shards() if shard.ref.kind == kind]
        left = [shard for shard in shards if shard.ref not in done]
        samples, tokens = (round(sum(of(shard.parameters) for shard in left)) for of in (completions, generated_tokens))
        rows.append(Work(kind, jobs, len(shards), len(shards) - len(left), samples, tokens, cost.seconds(left)))
    return rows


def seconds_left(
    shards: Collection[Shard[parameters.Parameters]],
    cost: CostModel,
    workers: int,
    elapsed: Mapping[ArtifactRef, float] | None = None,
) -> float | None:
    """Return the seconds until all shards are finished: all work on all workers, or the longest shard.

    `workers` processes work on the `shards`. A model on several GPUs keeps all of them busy. `elapsed` has the seconds
    since running shards began. Returns None if the time of a shard cannot be estimated yet, or too little is finished.
    """
    total = longest = 0.0
    for shard in shards:
        seconds = cost.seconds([shard])
        if seconds is None:
            return None
        seconds = max(0.0, seconds - (elapsed or {}).get(shard.ref, 0.0))
        total += seconds * min(workers, max(1, shard.gpus))
        longest = max(longest, seconds)
    return max(total / workers, longest) if cost.spent >= _ENOUGH * (cost.spent + total) else None
