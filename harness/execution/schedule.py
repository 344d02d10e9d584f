"""The order of shards, and its use by executors.

The order follows dependencies and failures, and keeps models loaded. An executor takes shards from a schedule, has them
computed anywhere, and yields their outcomes. A shard is plain data. An executor needs nothing else, except the output
folder and the plugin files.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from prmcal.harness.execution.dependencies import Dependencies
from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.events import Notice, ShardOutcome
from prmcal.harness.execution.machine import AnyWorker
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.preflight import Obstacle
from prmcal.harness.storage.store import ArtifactRef

_Turn = tuple[bool, bool, int]
"""The order of a ready shard among the shards of its model: whether it tries out no model, whether it was not handed
out before, and its position in the plan. False comes first."""

MOST_TRIES = 3
"""The most times that a shard is computed if its workers die or its model breaks."""

_TRIED = ("rollout", "score")
"""The jobs that try out a model: they sample and score the first questions."""
_STAGES = {"": 0, "llm": 1, "prm": 2, "search": 3, "grader": 4}


class Schedule:
    """Hand out shards whose inputs are finished.

    Shards that need no model are first, because they complete cells. Then each model that has not finished a shard yet
    is tried out: its first shard and the inputs of this shard come before shards of other models. So a PRM that cannot
    score is found before all samples are drawn. If a model fails there, its other shards fail too. Shards for the model
    that the worker has loaded are next. Then come the other models in the order of the plan, LLMs before PRMs. So each
    model is loaded as few times as this and the dependencies allow.

    Handing out all n shards takes O(n log n) steps.

    `done` are the finished shards, and `earlier` the artifacts outside the plan whose texts shards take over.

    Attributes
    ----------
    notes : dict
        The latest progress line of running shards.
    workers : dict
        What each worker computes now, by the names that executors give to them; None for an idle one.
    deaths : Counter
        How often the worker of a shard died or its model broke.
    started : dict
        When running shards began, in seconds of ``time.monotonic``.
    """

    def __init__(
        self,
        plan: Plan,
        done: Collection[ArtifactRef],
        earlier: Mapping[ArtifactRef, tuple[ArtifactRef, ...]] | None = None,
    ) -> None:
        self.notes: dict[ArtifactRef, str] = {}
        self.workers: dict[str, ArtifactRef | None] = {}
        self.deaths: Counter[ArtifactRef] = Counter()
        self.started: dict[ArtifactRef, float] = {}
        shards = [shard for shard in plan.shards() if shard.ref not in done]
        reused = earlier or {}
        self._shards = [replace(shard, reuses=(*shard.reuses, *reused.get(shard.ref, ()))) for shard in shards]
        self._position = {shard.ref: position for position, shard in enumerate(self._shards)}
        self._dependencies = Dependencies(self._shards)
        self._proven_models = {shard.resource for shard in plan.shards() if shard.ref in done}
        self._trials = self._first_of_models()
        # The ready shards: a heap for each model that they need, and one for those that need none, by an empty name.
        self._queues: dict[str, list[_Turn]] = defaultdict(list)
        for ref in self._dependencies.ready():
            self._line_up(ref)

    @property
    def finished(self) -> bool:
        """True if no shard is waiting for a worker or running."""
        return not self.started and not any(self._queues.values())

    @property
    def unfinished(self) -> Collection[Shard[Parameters]]:
        """A view of the shards that are running or waiting, each after its inputs."""
        return self._dependencies.unfinished.values()

    @property
    def untried(self) -> set[str]:
        """The models that are to be tried out, as shards name them, and models of graders, which come late."""
        return {
            shard.resource
            for shard in self.unfinished
            if shard.ref in self._trials or shard.resource.startswith("grader:")
        }

    def ready(self) -> dict[int, int]:
        """Return how many shards are ready, by the GPUs that their models need, the fewest first; 0 for no model."""
        counts: Counter[int] = Counter()
        for queue in self._queues.values():
            if queue:
                counts[self._first(queue).gpus] += len(queue)
        return dict(sorted(counts.items()))

    def take(self, loaded: str = "", fits: Callable[[int], bool] = lambda gpus: True) -> Shard[Parameters] | None:
        """Return the next shard for a worker; None if no shard that fits is ready.

        `loaded` is the model that the worker has loaded, as shards name it; empty if it has none. `fits` says whether
        the worker computes shards whose models need so many GPUs, 0 for shards without a model.
        """
        models = [model for model, queue in self._queues.items() if queue and fits(self._first(queue).gpus)]
        untried = [model for model in models if self._first(self._queues[model]).ref in self._trials]
        if "" in models:
            model = ""
        elif loaded in models and not untried:
            model = loaded
        elif models:
            # A stage after the other, then what was handed out before, then the first of the plan.
            turns = {model: (_STAGES[model.partition(":")[0]], *self._queues[model][0][1:]) for model in models}
            model = min(untried or models, key=lambda model: turns[model])
        else:
            return None
        shard = self._shards[heappop(self._queues[model])[-1]]
        self.started[shard.ref] = time.monotonic()
        return shard

    def hand_out(self, workers: Collection[AnyWorker]) -> Iterator[tuple[AnyWorker, Shard[Parameters]]]:
        """Yield a shard for every worker that is idle and finds one."""
        for worker in list(workers):
            if worker.idle:
                shard = self.take(worker.loaded, worker.seat.fits)
                if shard is not None:
                    worker.shard, worker.loaded = shard, shard.resource or worker.loaded
                    self.workers[worker.name] = shard.ref
                    yield worker, shard

    def _first(self, queue: Sequence[_Turn]) -> Shard[Parameters]:
        return self._shards[queue[0][-1]]

    def put_back(self, ref: ArtifactRef) -> None:
        """Make a shard whose worker was lost ready again. It is the first shard that needs its model.

        If the shard is not running, its outcome is known, and nothing happens.
        """
        if self._stop(ref):
            self._line_up(ref, again=True)

    def report(self, outcome: ShardOutcome, worker: str = "") -> list[ShardOutcome | Notice]:
        """Finish the shard that a worker computed, or put it back if its model or its worker broke, up to three tries.

        Return the outcomes and notices that follow.
        """
        ref, failure = outcome.ref, outcome.failure
        if outcome.broken and ref in self.started:
            assert failure is not None
            self.deaths[ref] += 1
            if self.deaths[ref] < MOST_TRIES:
                self.put_back(ref)
                where, tries = f" on {worker}" if worker else "", f"try {self.deaths[ref]} of {MOST_TRIES}"
                line = f"{ref.kind}/{ref.key} failed{where} ({tries}). It is tried again."
                return [Notice(line, (failure.reason, *outcome.log))]
        events = list[ShardOutcome | Notice](self.finish(outcome))
        if failure is not None and ref in self._trials:
            events.append(Notice(failure.reason, urgent=True))
        return events

    def finish(self, outcome: ShardOutcome) -> list[ShardOutcome]:
        """Note an outcome. Return it, and an outcome for every shard that can no longer be computed.

        The outcome of a shard that is not running is ignored, and nothing is returned. So a shard has one outcome, even
        if a lost worker and another one have computed it.
        """
        if not self._stop(outcome.ref):
            return []
        model = self._shards[self._position[outcome.ref]].resource
        if outcome.manifest is not None:
            self._proven_models.add(model)
            for ref in self._dependencies.finish(outcome.ref):
                self._line_up(ref)
            return [outcome]
        outcomes, failure = [outcome, *self._blocked_by(outcome)], outcome.failure
        if failure and outcome.ref in self._trials and model not in self._proven_models and failure.plugin == model:
            outcomes += self.give_up(model, failure)
        return outcomes

    def refuse(self, why: Callable[[Shard[Parameters]], Failure | None]) -> list[ShardOutcome]:
        """Let shards fail that must not be handed out, each for its reason. Return their outcomes.

        The outcomes include shards that need a refused one, and shards that only refused ones would read.
        """
        outcomes: list[ShardOutcome] = []
        for shard in list(self.unfinished):
            failure = why(shard)
            if failure is not None and self._remove(shard.ref):
                refused = ShardOutcome(shard.ref, failure=failure)
                outcomes += [refused, *self._blocked_by(refused)]
        while outcomes and (unread := [ref for ref in self._dependencies.unread() if self._remove(ref)]):
            outcomes += [ShardOutcome(ref, failure=outcomes[0].failure, blocked=True) for ref in unread]
        for model, queue in self._queues.items():
            waiting = [turn for turn in queue if self._shards[turn[-1]].ref in self._dependencies.unfinished]
            heapify(waiting)
            self._queues[model] = waiting
        return outcomes

    def give_up(self, model: str, failure: Failure) -> list[ShardOutcome]:
        """Refuse all shards that need a model, as shards name it, because it cannot be used."""

        def why(shard: Shard[Parameters]) -> Failure | None:
            return failure if model in {f"{kind}:{plugin.name}" for kind, plugin in shard.models} else None

        return self.refuse(why)

    def refused(self, problems: Iterable[Obstacle]) -> Iterator[ShardOutcome | Notice]:
        """Yield the outcomes that follow from problems of models that were not tried yet, and of calibrators with PRMs.

        Models that cannot work and fits that are not possible are given up before anything is sampled.
        """
        for problem in problems:
            lost = "It gives no verdicts" if problem.kind == "grader" else "Its cells fail"
            then = "The run goes on, and asks it again." if problem.may_pass else f"{lost}, and the run goes on."
            yield Notice(f"{problem} {then}", urgent=True)
            failure = Failure(str(problem), "input")
            if problem.prm:
                yield from self._give_up_fits(problem, failure)
            elif not problem.may_pass:
                yield from self.give_up(f"{problem.kind}:{problem.name}", failure)

    def _give_up_fits(self, problem: Obstacle, failure: Failure) -> list[ShardOutcome]:
        return self.refuse(lambda shard: failure if problem.is_of(shard) else None)

    def _remove(self, ref: ArtifactRef) -> bool:
        """Remove a shard if it is waiting, and return whether it was. It stays in its queue."""
        return ref not in self.started and self._dependencies.remove(ref)

    def _blocked_by(self, outcome: ShardOutcome) -> list[ShardOutcome]:
        """Return the outcomes of all shards that need a failed one. They are no longer unfinished."""
        blocked, ready = self._dependencies.fail(outcome.ref)
        for ref in ready:
            self._line_up(ref)
        return [ShardOutcome(ref, failure=outcome.failure, blocked=True) for ref in blocked]

    def _first_of_models(self) -> set[ArtifactRef]:
        """Return the shards that try out each model: its first shard and the inputs of this shard."""
        unfinished = self._dependencies.unfinished
        trial_of: dict[str, ArtifactRef] = {}
        for ref, shard in unfinished.items():
            if shard.resource not in self._proven_models and ref.kind in _TRIED:
                trial_of.setdefault(shard.resource, ref)
        trials: set[ArtifactRef] = set()
        refs = list(trial_of.values())
        while refs:
            ref = refs.pop()
            if ref in unfinished and ref not in trials:
                trials.add(ref)
                refs += [source for sources in unfinished[ref].inputs.values() for source in sources]
        return trials

    def _line_up(self, ref: ArtifactRef, again: bool = False) -> None:
        model = self._dependencies.unfinished[ref].resource
        turn = (not model or ref not in self._trials, not again, self._position[ref])
        heappush(self._queues[model], turn)

    def _stop(self, ref: ArtifactRef) -> bool:
        """Stop a shard. Return whether it was running."""
        self.notes.pop(ref, None)
        return self.started.pop(ref, None) is not None
