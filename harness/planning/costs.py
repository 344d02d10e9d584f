"""The costs of a plan: samples, tokens and seconds, from finished shards where there are any, and the time left."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.job import Shard
from prmcal.harness.planning.gpu_hours import completion_tokens, completions, gpus_needed, model_seconds
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef, Manifest

_SECONDS_OF_REPLICATE = 1e-6
_SECONDS_OF_TRAJECTORY = 1e-3
_SECONDS_OF_SHARD = 0.05
"""Measured on one core with the grid `nano`: a replicate of one question, a trajectory that a calibrator reads, and the
reading and writing of files."""

_UNFILLED = 16
"""A model takes as long for a few sequences as for this many more, because few do not fill a machine. Calibration
questions have few trajectories. Without this, their shards made the rest of the grid `smollm` look 2.4 times as long as
it was, and with it 1.3 times, until the last third of the run."""

_ENOUGH = 0.05
"""The share of all work that is finished before a time left is estimated. The first shards are small, and what they
take besides their work would make the rest look several times as long as it is."""

_Row = tuple[str, bool | None]
"""A kind of job, and whether its shards run a model: (kind, True or False). ("", True or False) has all kinds, and
(kind, None) has also the shards of other plans, of which only the size is known."""


@dataclass
class _Seen:
    """Totals of finished shards. `assumed` and `expected` are the seconds and samples that were assumed of them."""

    size: int = 0
    seconds: float = 0.0
    assumed: float = 0.0
    samples: int = 0
    expected: float = 0.0
    tokens: int = 0

    def add(self, manifest: Manifest, assumed: float = 0.0, expected: float = 0.0) -> None:
        self.size += manifest.size
        self.seconds += manifest.seconds
        self.assumed += assumed
        self.samples += manifest.samples
        self.expected += expected
        self.tokens += manifest.generated_tokens + manifest.scored_tokens


class CostModel:
    """The cost of shards, learnt from finished shards.

    Time and samples of a shard are those that are assumed of it, times the rate of finished shards of the same kind of
    job: what they took, divided by what was assumed of them. As long as there are none, the time follows from the rate
    of all finished shards that also run a model, or also run none, and then from the sizes of the shards of this kind
    in other plans. Shards that loaded a model count only as long as there are no others.

    `past` has all finished shards, of this plan or of others. If the run is `on_gpus`, the time is estimated from the
    sizes of the models before any shard is finished.

    Attributes
    ----------
    model_seconds : mapping of ArtifactRef to float
        The seconds that the models of each shard are assumed to take on a GPU.
    """

    def __init__(self, plan: Plan, past: Mapping[ArtifactRef, Manifest], on_gpus: bool = False) -> None:
        self.model_seconds = model_seconds(plan)
        self._on_gpus = on_gpus
        self._spent = 0.0
        self._expected = {shard.ref: completions(shard.parameters) for shard in plan.shards()}
        self._assumed = {shard.ref: self._assume(shard) for shard in plan.shards()}
        self._seen: dict[_Row, _Seen] = defaultdict(_Seen)
        self._loading: dict[_Row, _Seen] = defaultdict(_Seen)
        for ref, manifest in past.items():
            self.learn(ref, manifest)

    def _assume(self, shard: Shard[parameters.Parameters]) -> float:
        seconds = self.model_seconds[shard.ref]
        scored = shard.size if isinstance(shard.parameters, parameters.ScoringParameters) else 0
        if seconds and (sequences := self._expected[shard.ref] or scored):
            seconds *= 1 + _UNFILLED / sequences
        return seconds or _seconds_without_model(shard)

    def learn(self, ref: ArtifactRef, manifest: Manifest) -> None:
        """Take a finished shard into account."""
        self._spent += manifest.seconds
        table = self._loading if manifest.loading else self._seen
        table[ref.kind, None].add(manifest)
        if ref in self._assumed:
            for row in self._rows(ref):
                table[row].add(manifest, self._assumed[ref], self._expected[ref])

    def seconds(self, shards: Iterable[Shard[parameters.Parameters]]) -> float | None:
        """Return the single-worker seconds for `shards`; None if one of them cannot be estimated yet."""
        found = [self._seconds(shard) for shard in shards]
        return None if None in found else sum(each or 0.0 for each in found)

    def share(self, shard: Shard[parameters.Parameters]) -> int:
        """Return how many workers could be there instead of the one that computes a shard: one for each of its GPUs."""
        return max(1, gpus_needed(shard)) if self._on_gpus else 1

    def is_known(self, seconds: float) -> bool:
        """Return whether enough is finished to estimate that the rest takes so many single-worker seconds."""
        return self._on_gpus or self._spent >= _ENOUGH * (self._spent + seconds)

    def _rows(self, ref: ArtifactRef) -> tuple[_Row, _Row]:
        """Return the rows of the table that a shard of the plan belongs to, the one most like it first."""
        runs_model = self.model_seconds[ref] > 0
        return (ref.kind, runs_model), ("", runs_model)

    def _seconds(self, shard: Shard[parameters.Parameters]) -> float | None:
        assumed, rows = self._assumed[shard.ref], self._rows(shard.ref)
        for table in (self._seen, self._loading):
            for row in rows:
                if row in table:
                    return assumed * table[row].seconds / table[row].assumed
            if (every := table.get((shard.ref.kind, None))) is not None:
                return shard.size * every.seconds / every.size
        return assumed if self._on_gpus or self.model_seconds[shard.ref] == 0 else None

    def samples(self, shard: Shard[parameters.Parameters]) -> float:
        """Return the completions that a shard will sample: known for rollouts, estimated for other kinds."""
        expected, seen = self._expected[shard.ref], self._alike(shard)
        known = isinstance(shard.parameters, parameters.RolloutParameters) or not seen.expected
        return expected if known else expected * seen.samples / seen.expected

    def tokens(self, shard: Shard[parameters.Parameters]) -> float:
        """Return the tokens of these completions; 0 if the shard samples none."""
        if not isinstance(shard.parameters, parameters.GeneratingParameters):
            return 0
        seen = self._alike(shard)
        each = seen.tokens / seen.samples if seen.samples else 0
        return self.samples(shard) * (each or completion_tokens(shard.parameters))

    def _alike(self, shard: Shard[parameters.Parameters]) -> _Seen:
        return self._seen.get(self._rows(shard.ref)[0], _Seen())


def _seconds_without_model(shard: Shard[parameters.Parameters]) -> float:
    """Return the seconds of a shard that runs no model."""
    given = shard.parameters
    each = _SECONDS_OF_TRAJECTORY
    if isinstance(given, parameters.MeasuringParameters):
        each = _SECONDS_OF_REPLICATE * given.bootstrap.replicates
    return _SECONDS_OF_SHARD + each * shard.size


@dataclass(frozen=True)
class Work:
    """The work of one kind of job in a plan."""

    kind: str
    jobs: int
    shards: int
    reused: int
    """Jobs, their shards, and the finished ones among these."""
    samples: int
    """Completions that remain to be sampled. Estimated, except for rollouts."""
    tokens: int
    """Tokens of these completions, estimated from finished shards if there are any, otherwise from
    :mod:`prmcal.harness.planning.gpu_hours`."""
    seconds: float | None
    """Single-worker seconds of the remaining shards; None if they cannot be estimated yet."""


def remaining_work(plan: Plan, done: Collection[ArtifactRef], cost: CostModel) -> list[Work]:
    """Return the work of a plan by kind of job, in the order in which it is done."""
    rows = []
    for kind, jobs in Counter(job.kind for job in plan.jobs).items():
        shards = [shard for shard in plan.shards() if shard.ref.kind == kind]
        left = [shard for shard in shards if shard.ref not in done]
        samples, tokens = (round(sum(map(of, left))) for of in (cost.samples, cost.tokens))
        rows.append(
            Work(kind, jobs, len(shards), len(shards) - len(left), samples, tokens, cost.seconds(left))
        )
    return rows


def seconds_left(
    shards: Collection[Shard[parameters.Parameters]],
    cost: CostModel,
    workers: int,
    elapsed: Mapping[ArtifactRef, float] | None = None,
) -> float | None:
    """Return the seconds until shards are finished.

    Either all workers are busy to the end, or the longest chain of shards that wait for each other decides.

    `shards` are unfinished, each after its inputs, and `workers` processes work on them. `elapsed` has the seconds
    since running shards began. Returns None if the time of a shard cannot be estimated yet, or too little is finished.
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
        total += needed * min(workers, cost.share(shard))
        begin = 0.0
        for refs in shard.inputs.values():
            if id(refs) not in inputs_until:
                inputs_until[id(refs)] = max((until.get(ref, 0.0) for ref in refs), default=0.0)
            begin = max(begin, inputs_until[id(refs)])
        until[shard.ref] = begin + needed
        longest = max(longest, until[shard.ref])
    return max(total / workers, longest) if cost.is_known(total) else None
