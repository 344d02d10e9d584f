"""The executor that computes shards on the nodes of a Ray cluster.

Ray starts the workers, finds out which of them are gone, and carries messages and files. Which shard is computed next,
and how often it is tried, is decided here.
"""

import secrets
import shutil
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from prmcal.db.run_folder import workers_folder
from prmcal.errors import ClusterError
from prmcal.harness.cluster import actor
from prmcal.harness.cluster.connection import ClusterSettings, connected
from prmcal.harness.cluster.nodes import Census, cause_of, on_node, slots_of, too_large
from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.local import after_death, after_outcome
from prmcal.harness.execution.machine import Slot, Worker, hand_out, next_start
from prmcal.harness.execution.schedule import Event, Notice, Outcome, Schedule
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.storage.folder import texts_in
from prmcal.harness.storage.store import Store
from prmcal.registry.sources import local_files

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BETWEEN_NOTES = 5.0
# Ray tells at once that a worker is gone, and later that its node is.
_SECONDS_OF_DOUBT = 45.0


@dataclass(eq=False, kw_only=True)
class _Worker(Worker):
    actor: Any
    answer: Any
    """The next answer of Ray: that the actor is ready, or what came of its shard; None while it is idle."""
    note: Any = None

    @property
    def node(self) -> str:
        return self.seat.slots[0].node


@dataclass(frozen=True)
class _Doubt:
    """A shard whose actor is gone. Until `end` nobody knows whether its node is gone too."""

    shard: Shard[Parameters]
    node: str
    reason: str
    end: float


class RayExecutor:
    """Run shards on the nodes of a cluster. It is a context manager: inside the block it is connected.

    All nodes see the folder of the run. Copies of the plugin files lie in it.

    Raises a ClusterError on entering the block, if the cluster cannot be reached, or cannot run the grid.
    """

    def __init__(
        self,
        directory: Path,
        grid: GridSpec,
        plugin_files: Sequence[Path] = (),
        settings: ClusterSettings | None = None,
    ) -> None:
        self._directory = directory.resolve()
        self._grid = grid
        self._plugin_files = tuple(plugin_files)
        self._settings = settings or ClusterSettings()
        self._workers: list[_Worker] = []
        self._doubts: list[_Doubt] = []
        self._exit = ExitStack()
        self._ray: Any = None

    def __enter__(self) -> Self:
        """Connect, and check the nodes."""
        with ExitStack() as stack:
            self._ray = stack.enter_context(connected(self._settings.address))
            self._census = Census(self._ray, _paths(self._grid))
            slots_of(self._census.usable, self._settings.workers)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """Disconnect. All workers end."""
        self._exit.close()

    @property
    def workers(self) -> int:
        """The number of workers that there is room for now."""
        with_models = sum(slot.models is not False for slot in self._slots())
        most = self._settings.workers or with_models
        return max(1, len(self._slots()) - max(0, with_models - most))

    @property
    def nodes(self) -> int:
        """The number of nodes that are used now."""
        return len({slot.node for slot in self._slots()})

    @property
    def on_gpus(self) -> bool:
        """True if a node has GPUs now."""
        return any(node.gpus for node in self._census.usable.values())

    def run(self, schedule: Schedule) -> Generator[Event]:
        """See :meth:`prmcal.harness.execution.local.Executor.run`."""
        folder, token = workers_folder(self._directory), secrets.token_hex(16)
        folder.mkdir(parents=True, exist_ok=True)
        actor.token_file(self._directory).write_text(token)
        plugins = folder / "plugins"
        settings = actor.ActorSettings(
            directory=self._directory,
            working_directory=Path.cwd(),
            token=token,
            plugin_files=copied_plugins(self._plugin_files, plugins),
            modules=plugins / "modules",
            time_limit=self._grid.shards.time_limit * 3600,
        )
        shared = self._ray.put(settings)
        next_notes = 0.0
        try:
            nodes = self._census.usable.values()
            yield from schedule.refuse(
                lambda shard: Failure(why, "input") if (why := too_large(shard, nodes)) else None
            )
            while not schedule.finished:
                yield from self._count_nodes(schedule)
                self._hand_out(schedule)
                self._start_workers(shared, schedule)
                events = self._resolve_doubts(schedule)
                answers = {each.answer: each for each in self._workers if each.answer is not None}
                ready = self._answered(list(answers))
                if not ready:
                    yield None
                for answer in ready:
                    events += self._receive(answers[answer], schedule)
                self._hand_out(schedule)
                if time.monotonic() > next_notes:
                    self._ask_for_notes(schedule)
                    next_notes = time.monotonic() + _SECONDS_BETWEEN_NOTES
                yield from events
        finally:
            for worker in list(self._workers):
                self._end(worker, schedule)
            shutil.rmtree(folder, ignore_errors=True)
            # A worker that was killed while it sent an artifact leaves a part of it.
            Store(self._directory).remove_leftovers()

    def _slots(self) -> list[Slot]:
        try:
            return slots_of(self._census.usable, self._settings.workers)
        except ClusterError:  # A node with GPUs has left.
            return slots_of(self._census.usable, None)

    def _count_nodes(self, schedule: Schedule) -> Iterator[Outcome | Notice]:
        """Look which nodes have joined or left."""
        left, notices = self._census.take()
        yield from notices
        for node in left:
            for worker in [each for each in self._workers if each.node == node.id]:
                yield from self._lose(worker, "its node has left", schedule)

    def _start_workers(self, settings: Any, schedule: Schedule) -> None:
        slots = [slot for slot in self._slots() if not self._census.rests(slot.node)]
        while (start := next_start(schedule, slots, self._workers, self._settings.workers)) is not None:
            seat, ended = start
            for each in ended:
                self._end(each, schedule)
            slot = seat.slots[0]
            kind = "" if slot.models is not False else "helper "
            name = f"{self._census.usable[slot.node].name}, {kind}worker {slot.number + 1}"
            options = {
                "num_cpus": 1,
                "num_gpus": len(seat.gpus),
                "max_restarts": 0,
                "max_task_retries": 0,
                "max_concurrency": 2,
                "scheduling_strategy": on_node(self._ray, slot.node),
            }
            remote = self._ray.remote(actor.NodeWorker).options(**options).remote
            started = remote(settings, len(seat.gpus), name)
            worker = _Worker(seat=seat, name=name, ready=False, actor=started, answer=started.ready.remote())
            self._workers.append(worker)

    def _hand_out(self, schedule: Schedule) -> None:
        for worker, shard in hand_out(schedule, self._workers):
            worker.shard, worker.loaded = shard, shard.resource or worker.loaded
            worker.answer = worker.actor.compute.remote(shard)
            schedule.workers[worker.name] = shard.ref
        if all(each.ready for each in self._workers) and not schedule.running and schedule.forgive():
            self._hand_out(schedule)

    def _answered(self, answers: Sequence[Any]) -> list[Any]:
        """Return all answers that have come. Wait a moment for the first of them."""
        if not answers:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            return []
        first, _ = self._ray.wait(answers, timeout=_SECONDS_BETWEEN_LOOKS, fetch_local=True)
        if not first:
            return []
        ready, _ = self._ray.wait(answers, num_returns=len(answers), timeout=0, fetch_local=True)
        return list(ready)

    def _receive(self, worker: _Worker, schedule: Schedule) -> list[Outcome | Notice]:
        """Take the answer of a worker: it is ready, or it has computed its shard, or it is gone."""
        try:
            answer = self._ray.get(worker.answer)
        except self._ray.exceptions.RayTaskError as error:
            return self._fail(worker, cause_of(error), schedule)
        except self._ray.exceptions.RayError as error:
            return self._lose(worker, cause_of(error), schedule)
        worker.answer = None
        if not worker.ready:
            if not answer:
                self._end(worker, schedule)
                why = (
                    f"The node {self._name_of(worker)} does not see {self._directory}. A cluster needs a folder that "
                    "all nodes see, such as one on NFS. Choose one for --out."
                )
                return list(self._census.refuse(worker.node, why))
            worker.ready = True
            schedule.workers[worker.name] = None
            return []
        shard, worker.shard = worker.shard, None
        assert shard is not None
        schedule.workers[worker.name] = None
        if isinstance(answer, actor.Death):
            worker.loaded = ""
            if not answer.started:
                # It would take shard after shard. A new worker is started after a while, if the node is still used.
                self._end(worker, schedule)
                schedule.put_back(shard.ref)
                return self._cannot_start(worker, " ".join([answer.reason, *answer.lines[-1:]]))
            reason = f"{answer.reason} on the node {self._name_of(worker)}"
            return after_death(schedule, shard, reason, answer.lines)
        self._census.started(worker.node)
        return after_outcome(schedule, answer, worker.name)

    def _fail(self, worker: _Worker, reason: str, schedule: Schedule) -> list[Outcome | Notice]:
        """End a worker whose actor raised an error. This counts as a try of its shard."""
        self._end(worker, schedule)
        if worker.shard is None:
            return self._cannot_start(worker, reason)
        what = f"A worker on the node {self._name_of(worker)} failed ({reason})"
        return after_death(schedule, worker.shard, what)

    def _lose(self, worker: _Worker, reason: str, schedule: Schedule) -> list[Outcome | Notice]:
        """End a worker whose actor is gone. Its shard is in doubt until it is known whether the node is gone too."""
        self._end(worker, schedule)
        self._census.soon()
        if worker.shard is not None:
            end = time.monotonic() + _SECONDS_OF_DOUBT
            self._doubts.append(_Doubt(worker.shard, worker.node, reason, end))
        return [] if worker.ready else self._cannot_start(worker, reason)

    def _cannot_start(self, worker: _Worker, reason: str) -> list[Outcome | Notice]:
        return list(self._census.failed_start(worker.node, self._name_of(worker), reason))

    def _resolve_doubts(self, schedule: Schedule) -> list[Outcome | Notice]:
        """Put shards of lost nodes back. The others count a try after a while."""
        events: list[Outcome | Notice] = []
        for doubt in list(self._doubts):
            if doubt.node not in self._census.usable:
                schedule.put_back(doubt.shard.ref)
            elif time.monotonic() > doubt.end:
                events += after_death(schedule, doubt.shard, f"A worker is gone: {doubt.reason}")
            else:
                continue
            self._doubts.remove(doubt)
        return events

    def _end(self, worker: _Worker, schedule: Schedule) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
        schedule.workers.pop(worker.name, None)
        with suppress(Exception):  # It is gone already.
            self._ray.kill(worker.actor)

    def _ask_for_notes(self, schedule: Schedule) -> None:
        """Take the lines about the progress that came since the last time, and ask for the next ones."""
        asked = {each.note: each for each in self._workers if each.note is not None and each.shard}
        come, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=0) if asked else ([], [])
        for each in come:
            shard = asked[each].shard
            with suppress(self._ray.exceptions.RayError):
                note = self._ray.get(each)
                if shard is not None and note:
                    schedule.notes[shard.ref] = note
        for worker in self._workers:
            worker.note = worker.actor.note.remote() if worker.shard is not None else None

    def _name_of(self, worker: _Worker) -> str:
        return worker.name.partition(",")[0]


def _paths(grid: GridSpec) -> list[Path]:
    """Return the files and folders that the grid names, as absolute paths."""
    specs = [spec for own in grid.entries.values() for spec in own]
    named = {text for spec in specs for text, _ in texts_in(spec.arguments) if "/" in text}
    return sorted({Path(text).resolve() for text in named if Path(text).exists()})


def copied_plugins(plugin_files: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """Copy plugin files into a folder, and the local modules that they import into its folder ``modules``.

    Return the copies of the plugin files by their absolute paths.
    """
    copies: dict[Path, Path] = {}
    for number, file in enumerate(plugin_files):
        for place, (name, path) in enumerate(local_files(file).items()):
            module = Path("modules", *name.split("."))
            if path.name == "__init__.py":
                module /= path.name
            copy = folder / (module.with_suffix(".py") if place else Path(f"{number}", path.name))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            if not place:
                copies[path.resolve()] = copy
    return copies
