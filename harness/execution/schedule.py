"""The order of shards, and what an executor does with it.

The order follows dependencies and failures, and keeps models loaded. An executor takes shards from a schedule, has them
computed anywhere, and yields their outcomes. A shard is plain data. An executor needs nothing else, except the output
folder and the plugin files.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Self

from prmcal.harness.execution.ending import Failure
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.preflight import Problem
from prmcal.harness.storage.store import ArtifactRef, Manifest

_Turn = tuple[bool, bool, int]
"""When a ready shard comes among those of its model: whether it tries out no model, whether it was not handed out
before, and its position in the plan. False comes first."""

MOST_TRIES = 3
"""The most times that a shard is computed if its workers die or its model breaks."""

_TRIED = ("rollout", "score")
"""The jobs that try out a model: they sample and score the first questions."""
_STAGES = {"": 0, "llm": 1, "prm": 2, "search": 3, "grader": 4}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a shard."""

    ref: ArtifactRef
    manifest: Manifest | None = None
    """The manifest of its artifact, or None if it failed."""
    failure: Failure | None = None
    """Why it failed, or None if it did not."""
    blocked: bool = False
    """True if it was not computed because a shard that it needs failed."""
    fatal: bool = False
    """True if the run must stop because the machine failed, for example with a full disk."""
    broken: bool = False
    """True if a model or the worker broke, so that another try in a new process may succeed."""
    log: tuple[str, ...] = ()
    """Lines for the log: repeated requests, warnings, and the traceback of an error."""

    @classmethod
    def of_death(cls, ref: ArtifactRef, reason: str, lines: Sequence[str] = ()) -> Self:
        """Return the outcome of a shard whose worker died, which can happen without a fault of the shard.

        `reason` says how it died, without a full stop, and `lines` are the last ones that it wrote.
        """
        return cls(ref, failure=Failure(f"{reason}.", "crash"), broken=True, log=tuple(lines))


@dataclass(slots=True)
class _Gate:
    """A gate before shards that read the same artifacts. It is open when none of the artifacts is missing.

    If they are not needed, because their texts are only taken over, those that failed are not missing.
    """

    missing: int
    needed: bool
    waiting: list[ArtifactRef] = field(default_factory=list)


class Schedule:
    """Hand out shards whose inputs are finished.

    Shards that need no model are first, because they complete cells. Then each model is tried out that has not finished
    a shard yet: its first shard comes before those of other models, with what it reads. So a PRM that cannot score is
    known before all is sampled. If a model fails there, its other shards fail too. Shards for the model that the worker
    has loaded are next. Then come the other models in the order of the plan, LLMs before PRMs. So each model is loaded
    as few times as this and the dependencies allow.

    To hand out all of n shards takes O(n log n) steps.

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
        self._unfinished = {shard.ref: shard for shard in plan.shards() if shard.ref not in done}
        for ref, refs in (earlier or {}).items():
            shard = self._unfinished[ref]
            self._unfinished[ref] = replace(shard, reuses=(*shard.reuses, *refs))
        self._running: dict[ArtifactRef, Shard[Parameters]] = {}
        self._shards = list(self._unfinished.values())
        self._position = {ref: position for position, ref in enumerate(self._unfinished)}
        # The ready shards: a heap for each model that they need, and one for those that need none, by an empty name.
        self._lines: dict[str, list[_Turn]] = defaultdict(list)
        self._proven = {shard.resource for shard in plan.shards() if shard.ref in done}
        self._trials = self._first_of_models()
        # The gates that a shard opens when it is finished, and how many are closed before each shard that waits.
        self._gates: dict[ArtifactRef, list[_Gate]] = defaultdict(list)
        self._closed: Counter[ArtifactRef] = Counter()
        self._read: set[ArtifactRef] = set()  # What other shards read.
        self._close_gates()
        for ref in self._unfinished:
            if not self._closed[ref]:
                self._line_up(ref)

    @property
    def finished(self) -> bool:
        """True if no shard is waiting for a worker or running."""
        return not self._running and not any(self._lines.values())

    @property
    def running(self) -> Collection[Shard[Parameters]]:
        """A view of the shards that are handed out and not finished."""
        return self._running.values()

    @property
    def unfinished(self) -> Collection[Shard[Parameters]]:
        """A view of the shards that are running or waiting, each after its inputs."""
        return self._unfinished.values()

    @property
    def untried(self) -> set[str]:
        """The models that are to be tried out, as shards name them, and those of graders, which come late."""
        untried = {self._unfinished[ref].resource for ref in self._trials if ref in self._unfinished}
        return untried | {shard.resource for shard in self._unfinished.values() if shard.resource.startswith("grader:")}

    def is_trial(self, ref: ArtifactRef) -> bool:
        """Return whether a shard tries out a model, or is read by one that does."""
        return ref in self._trials

    def ready(self) -> dict[int, int]:
        """Return how many shards are ready, by the GPUs that their models need, the fewest first; 0 for no model."""
        counts: Counter[int] = Counter()
        for line in self._lines.values():
            if line:
                counts[self._first(line).gpus] += len(line)
        return dict(sorted(counts.items()))

    def take(self, loaded: str = "", fits: Callable[[int], bool] = lambda gpus: True) -> Shard[Parameters] | None:
        """Return the next shard for a worker; None if no shard that fits is ready.

        `loaded` is the model that the worker has loaded, as shards name it; empty if it has none. `fits` says whether
        the worker computes shards whose models need so many GPUs, 0 for shards without a model.
        """
        models = [model for model, line in self._lines.items() if line and fits(self._first(line).gpus)]
        untried = [model for model in models if self._first(self._lines[model]).ref in self._trials]
        if "" in models:
            chosen = ""
        elif loaded in models and not untried:
            chosen = loaded
        elif models:
            chosen = min(untried or models, key=self._turn_of)
        else:
            return None
        shard = self._shards[heappop(self._lines[chosen])[-1]]
        self._running[shard.ref] = shard
        self.started[shard.ref] = time.monotonic()
        return shard

    def _first(self, line: Sequence[_Turn]) -> Shard[Parameters]:
        return self._shards[line[0][-1]]

    def _turn_of(self, model: str) -> tuple[int, bool, int]:
        """Return when a model comes that has ready shards, among others."""
        _, again, position = self._lines[model][0]
        return _STAGES[model.partition(":")[0]], again, position

    def refuse(self, why: Callable[[Shard[Parameters]], Failure | None]) -> list[Outcome]:
        """Let the shards fail for which there is a reason not to hand them out. Return their outcomes.

        The outcomes include those of shards that need a refused one, and of those that only refused ones would read.
        """
        outcomes: list[Outcome] = []
        for shard in list(self._unfinished.values()):
            failure = why(shard)
            if failure is not None and self._remove(shard.ref):
                refused = Outcome(shard.ref, failure=failure)
                outcomes += [refused, *self._block(refused)]
        while outcomes and (unread := self._unread()):
            outcomes += [Outcome(ref, failure=outcomes[0].failure, blocked=True) for ref in unread if self._remove(ref)]
        for model, line in self._lines.items():
            self._lines[model] = [turn for turn in line if self._shards[turn[-1]].ref in self._unfinished]
            heapify(self._lines[model])
        return outcomes

    def give_up(self, model: str, failure: Failure) -> list[Outcome]:
        """Refuse all shards that need a model, as shards name it, because it cannot be used."""
        return self.refuse(
            lambda shard: failure if model in {f"{kind}:{each.name}" for kind, each in shard.models} else None
        )

    def refused(self, problems: Iterable[Problem]) -> "Iterator[Outcome | Notice]":
        """Yield what follows from the problems of models that were not tried yet, and of calibrators with PRMs.

        A model that cannot work is given up, before anything is sampled, and so is a fit that is not possible.
        """
        for each in problems:
            lost = "It gives no verdicts" if each.kind == "grader" else "Its cells fail"
            then = f"{lost}, and the run goes on."
            if each.may_pass:
                then = "The run goes on, and asks it again."
            yield Notice(f"{each} {then}", urgent=True)
            failure = Failure(str(each), "input")
            if each.prm:
                yield from self._give_up_fits(each, failure)
            elif not each.may_pass:
                yield from self.give_up(f"{each.kind}:{each.name}", failure)

    def _give_up_fits(self, problem: Problem, failure: Failure) -> list[Outcome]:
        return self.refuse(lambda shard: failure if problem.is_of(shard) else None)

    def _remove(self, ref: ArtifactRef) -> bool:
        """Return whether a shard was waiting. It is not any more, except in its line."""
        return ref not in self._running and self._unfinished.pop(ref, None) is not None

    def _unread(self) -> list[ArtifactRef]:
        """Return the waiting shards whose readers were all removed."""
        read = {refs for shard in self._unfinished.values() for refs in shard.inputs.values()}
        unread = self._read - {ref for refs in read for ref in refs} - self._running.keys()
        return [ref for ref in self._unfinished if ref in unread]

    def put_back(self, ref: ArtifactRef) -> None:
        """Make a shard whose worker was lost ready again. It is the first of those that need the same model.

        Nothing happens if the shard is not running, because its outcome is known.
        """
        if self._stop(ref):
            self._line_up(ref, again=True)

    def finish(self, outcome: Outcome) -> list[Outcome]:
        """Note an outcome. Return it, and an outcome for every shard that can no longer be computed.

        The outcome of a shard that is not running is ignored, and nothing is returned. So a shard that was computed
        twice, by a worker that was lost and by another one, has one outcome.
        """
        if not self._stop(outcome.ref):
            return []
        model = self._unfinished.pop(outcome.ref).resource
        if outcome.manifest is not None:
            self._proven.add(model)
            self._open_gates(outcome.ref)
            return [outcome]
        outcomes, failure = [outcome, *self._block(outcome)], outcome.failure
        if failure and self.is_trial(outcome.ref) and model not in self._proven and failure.plugin == model:
            outcomes += self.give_up(model, failure)
        return outcomes

    def tries_again(self, outcome: Outcome) -> bool:
        """Put the shard of an outcome back if its model or its worker broke. Return whether it is tried again.

        It is not after three tries.
        """
        if outcome.ref not in self._running or not outcome.broken:
            return False
        self.deaths[outcome.ref] += 1
        if self.deaths[outcome.ref] >= MOST_TRIES:
            return False
        self.put_back(outcome.ref)
        return True

    def _first_of_models(self) -> set[ArtifactRef]:
        """Return the shard that tries out each model, and what it reads."""
        first: dict[str, ArtifactRef] = {}
        for ref, shard in self._unfinished.items():
            if shard.resource not in self._proven and ref.kind in _TRIED:
                first.setdefault(shard.resource, ref)
        trials: set[ArtifactRef] = set()
        waiting = list(first.values())
        while waiting:
            ref = waiting.pop()
            if ref in self._unfinished and ref not in trials:
                trials.add(ref)
                waiting += [each for refs in self._unfinished[ref].inputs.values() for each in refs]
        return trials

    def _close_gates(self) -> None:
        # Shards that read the same artifacts share a gate.
        gates: dict[tuple[tuple[ArtifactRef, ...], bool], _Gate] = {}
        for ref, shard in self._unfinished.items():
            for refs, needed in [*((refs, True) for refs in shard.inputs.values()), (shard.reuses, False)]:
                if (refs, needed) not in gates:
                    missing = [source for source in refs if source in self._unfinished]
                    gates[refs, needed] = _Gate(len(missing), needed)
                    if needed:
                        self._read.update(missing)
                    for source in missing:
                        self._gates[source].append(gates[refs, needed])
                gate = gates[refs, needed]
                if gate.missing:
                    gate.waiting.append(ref)
                    self._closed[ref] += 1

    def _open_gates(self, ref: ArtifactRef) -> None:
        for gate in self._gates.pop(ref, ()):
            self._pass(gate)

    def _pass(self, gate: _Gate) -> None:
        """Note that one of the artifacts before a gate is not missing any more."""
        gate.missing -= 1
        for waiting in [] if gate.missing else gate.waiting:
            self._closed[waiting] -= 1
            if not self._closed[waiting] and waiting in self._unfinished:
                self._line_up(waiting)

    def _block(self, outcome: Outcome) -> Iterator[Outcome]:
        """Remove all shards that need a failed one, and yield their outcomes."""
        failed = [outcome.ref]
        while failed:
            for gate in self._gates.pop(failed.pop(), ()):
                if not gate.needed:
                    self._pass(gate)
                    continue
                for ref in gate.waiting:
                    if self._unfinished.pop(ref, None) is not None:
                        failed.append(ref)
                        yield Outcome(ref, failure=outcome.failure, blocked=True)
                gate.waiting.clear()

    def _line_up(self, ref: ArtifactRef, again: bool = False) -> None:
        model = self._unfinished[ref].resource
        turn = (not model or ref not in self._trials, not again, self._position[ref])
        heappush(self._lines[model], turn)

    def _stop(self, ref: ArtifactRef) -> bool:
        """Return whether a shard was running. It is not any more."""
        self.notes.pop(ref, None)
        self.started.pop(ref, None)
        return self._running.pop(ref, None) is not None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the log of the run tells, such as the death of a worker."""

    line: str
    """One sentence."""
    details: tuple[str, ...] = ()
    """Lines below it, such as the last lines that a worker wrote."""
    urgent: bool = False
    """True if it is shown on the terminal too, at once."""


Event = Outcome | Notice | None
