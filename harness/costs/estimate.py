"""What the rest of a plan will cost, from the shards that are done already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from prmcal.harness.costs.assumptions import completion_tokens, prefixes
from prmcal.harness.jobs.job import Shard
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
    """Mean cost of a unit of a shard's size, by its kind and model, learnt from finished shards.

    A model not seen yet is taken to cost what the others of its kind of job did.

    Parameters
    ----------
    plan : Plan
    past : mapping of ArtifactRef to Manifest
        Everything that was computed before, for this plan or another.
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

    def seconds(self, shards: Iterable[Shard]) -> float | None:
        """Worker seconds that `shards` will take; None if a kind among them was never seen."""
        total = 0.0
        for shard in shards:
            seen = self._for(shard)
            if not seen.size:
                return None
            total += shard.size * seen.seconds / seen.size
        return total

    def samples(self, shard: Shard) -> float:
        """Completions that a shard will draw: known for rollouts, estimated for follow-ups and searches."""
        if shard.ref.kind == "rollout":
            return shard.size
        if shard.ref.kind not in ("success", "search"):
            return 0
        seen = self._for(shard)
        # Follow-ups are drawn of every prefix; a search draws all of its candidates for every step.
        steps = prefixes(shard.parameters["sampling"]["max_tokens"])
        assumed = steps * shard.parameters.get("candidates", 1)
        return shard.size * (seen.samples / seen.size if seen.size else assumed)

    def tokens_per_sample(self, shard: Shard) -> float | None:
        """Mean tokens of a completion; None if there was none yet."""
        seen = self._for(shard)
        return seen.tokens / seen.samples if seen.samples else None

    def _for(self, shard: Shard) -> _Seen:
        own = self._seen.get((shard.ref.kind, shard.resource))
        return own or self._seen.get((shard.ref.kind, None)) or _Seen()


@dataclass(frozen=True)
class Work:
    """The work of one kind of job in a plan.

    Attributes
    ----------
    samples : int
        Completions still to draw; for success jobs an estimate.
    tokens : int
        Tokens they will have: from past shards where there are any, else by :mod:`prmcal.harness.costs.assumptions`.
    seconds : float or None
        Worker seconds, None where nothing like it was run before.
    """

    kind: str
    jobs: int
    shards: int
    reused: int
    samples: int
    tokens: int
    seconds: float | None


def remaining_work(plan: Plan, done: Collection[ArtifactRef], cost: CostModel) -> list[Work]:
    """The plan's work by kind of job, in the order in which it is done."""
    rows = []
    for kind in dict.fromkeys(job.kind for job in plan.jobs):
        jobs = [job for job in plan.jobs if job.kind == kind]
        shards = {shard.ref: shard for job in jobs for shard in job.shards}
        open_shards = [shard for ref, shard in shards.items() if ref not in done]
        samples = {shard.ref: cost.samples(shard) for shard in open_shards}
        tokens = sum(
            samples[shard.ref] * (cost.tokens_per_sample(shard) or completion_tokens(shard))
            for shard in open_shards
            if samples[shard.ref]
        )
        rows.append(
            Work(
                kind,
                len(jobs),
                len(shards),
                len(shards) - len(open_shards),
                round(sum(samples.values())),
                round(tokens),
                cost.seconds(open_shards),
            )
        )
    return rows
