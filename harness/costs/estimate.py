"""The costs of the remaining work of a plan, estimated from finished shards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from prmcal.harness.costs.assumptions import completion_tokens, prefixes
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    GeneratingParameters,
    Parameters,
    RolloutParameters,
    SearchParameters,
)
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Manifest

__all__ = ["CostModel", "Work", "remaining_work"]


@dataclass
class _Seen:
    size: int = 0
    seconds: float = 0.0
    samples: int = 0
    tokens: int = 0

    def add(self, manifest: Manifest) -> None:
        self.size += manifest.size
        self.seconds += manifest.seconds
        self.samples += manifest.samples
        self.tokens += manifest.generated_tokens + manifest.scored_tokens


class CostModel:
    """The mean cost of a unit of work, by kind of job and model, learnt from finished shards.

    A model without finished shards is assumed to cost as much as the others in its kind of job.

    Parameters
    ----------
    plan : Plan
    past : mapping of ArtifactRef to Manifest
        All finished shards, of this plan or of others.
    """

    def __init__(self, plan: Plan, past: Mapping[ArtifactRef, Manifest]) -> None:
        self._resources = {shard.ref: shard.resource for shard in plan.shards()}
        self._seen: dict[tuple[str, str | None], _Seen] = defaultdict(_Seen)
        for ref, manifest in past.items():
            self.learn(ref, manifest)

    def learn(self, ref: ArtifactRef, manifest: Manifest) -> None:
        """Take a finished shard into account."""
        self._seen[ref.kind, None].add(manifest)
        if ref in self._resources:
            self._seen[ref.kind, self._resources[ref]].add(manifest)

    def seconds(self, shards: Iterable[Shard[Parameters]]) -> float | None:
        """Return the single-worker seconds for `shards`; None if one of their kinds has no finished shard."""
        total = 0.0
        for shard in shards:
            seen = self._for(shard)
            if not seen.size:
                return None
            total += shard.size * seen.seconds / seen.size
        return total

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
        own = self._seen.get((shard.ref.kind, shard.resource))
        return own or self._seen.get((shard.ref.kind, None)) or _Seen()


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
        Single-worker seconds of the remaining shards; None if no shard of this kind is finished.
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
