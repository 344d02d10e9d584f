"""The executor that computes shards on the nodes of a Ray cluster, and its actor on a node.

Ray starts the workers, finds out which of them are gone, and carries messages and files. Which shard is computed next,
and how often it is tried, is decided here.
"""

import os
import secrets
import shutil
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from prmcal.db.run_folder import workers_folder
from prmcal.errors import ClusterError, DataError
from prmcal.harness.cluster.nodes import Census, ClusterSettings, cause_of, connected, on_node, slots_of
from prmcal.harness.execution.events import Event, Notice, ShardOutcome
from prmcal.harness.execution.local import WorkerDiedError, WorkerProcess
from prmcal.harness.execution.machine import Slot, Worker, next_start, too_large
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.sources import local_files

_SECONDS_BETWEEN_LOOKS = 0.5
# A shared file system may show a new file to other machines only after a while.
_SECONDS_UNTIL_SHARED = 60.0
_TOKEN = "token"  # The file by which a node finds out whether it shares the folder of a run.


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """The settings that all actors of a run share."""

    directory: Path
    """The output folder of the run, as an absolute path."""
    working_directory: Path
    """The working directory of the run. Actors use this folder if they have it, for relative paths in the grid."""
    token: str
    """The content of the file `directory`/workers/token. A node that can read this file shares the folder."""
    plugin_files: Mapping[Path, Path]
    """The copies of plugin files in `directory`, by the absolute paths of the files."""
    modules: Path
    """The folder in `directory` with copies of the modules that the plugin files import."""


class NodeWorker:
    """Computes one shard after the other on a node. Ray calls its methods.

    `gpus` is the number of its GPUs from Ray, and `name` is its name in the progress.
    """

    def __init__(self, settings: ActorSettings, gpus: int, name: str) -> None:
        self._settings = settings
        self._variables = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
        self._process: WorkerProcess | None = None
        file_name = name.replace(",", "").replace(" ", "-")
        self._output = workers_folder(settings.directory) / f"{file_name}-{os.getpid()}.txt"
        sys.path.insert(0, str(settings.modules))
        if settings.working_directory.is_dir():
            os.chdir(settings.working_directory)

    def ready(self) -> bool:
        """Return whether the node sees the folder of the run. Ray answers when the actor has started."""
        try:
            return (workers_folder(self._settings.directory) / _TOKEN).read_text() == self._settings.token
        except OSError:
            return False

    def compute(self, shard: Shard[Parameters]) -> ShardOutcome | str:
        """Compute a shard. Its artifact is in the folder of the run when this returns.

        Returns the reason if the process that computes shards does not start.
        """
        store = Store(self._settings.directory)
        for ref in [ref for refs in shard.inputs.values() for ref in refs]:
            end = time.monotonic() + _SECONDS_UNTIL_SHARED
            while store.manifest(ref, verify=False) is None:
                if time.monotonic() > end:
                    raise DataError(f"The artifact {store.folder(ref)} does not appear on this node.")
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        process = self._living_process()
        try:
            process.send(shard)
            while not isinstance(message := process.receive(), ShardOutcome):
                continue  # A line about the progress.
            if process.spent:
                self.close()
            return message
        except WorkerDiedError as death:
            self.close()
            lines = process.last_lines()
            if not process.started:
                return " ".join([str(death), *lines[-1:]])
            return ShardOutcome.of_death(shard.ref, str(death), lines)

    def close(self) -> None:
        """End the process that computes the shards. If the actor is killed, the process ends by itself."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _living_process(self) -> WorkerProcess:
        if self._process is not None and not self._process.alive:
            self.close()  # It died while it was idle.
        if self._process is None:
            files = [
                path if path.is_file() and path.read_bytes() == copy.read_bytes() else copy
                for path, copy in self._settings.plugin_files.items()
            ]
            self._process = WorkerProcess(self._settings.directory, files, self._output, self._variables)
        return self._process


@dataclass(eq=False, kw_only=True)
class _Worker(Worker):
    actor: Any
    answer: Any
    """The next answer of Ray: the actor is ready, or its shard has an outcome; None while it is idle."""

    @property
    def node(self) -> str:
        return self.seat.slots[0].node


class RayExecutor:
    """Run shards on the nodes of a cluster. The executor is a context manager: inside the block it is connected.

    All nodes see the folder of the run. It contains copies of the plugin files.

    Raises a ClusterError on entering the block, if the cluster cannot be reached, or cannot run the grid.
    """

    def __init__(
        self, directory: Path, plugin_files: Sequence[Path] = (), settings: ClusterSettings | None = None
    ) -> None:
        self._directory = directory.resolve()
        self._plugin_files = tuple(plugin_files)
        self._settings = settings or ClusterSettings()
        self._workers: list[_Worker] = []
        self._lost: list[tuple[str, ArtifactRef]] = []  # Nodes, and shards whose workers are gone.
        self._exit = ExitStack()
        self._ray: Any = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._ray = stack.enter_context(connected(self._settings.address))
            self._census = Census(self._ray)
            slots_of(self._census.usable, self._settings.workers)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    @property
    def workers(self) -> int:
        """The number of workers that fit now."""
        room = len(self._slots())
        return max(1, min(room, self._settings.workers or room))

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
        (folder / _TOKEN).write_text(token)
        plugins = folder / "plugins"
        copies = copied_plugins(self._plugin_files, plugins)
        settings = ActorSettings(self._directory, Path.cwd(), token, copies, plugins / "modules")
        shared = self._ray.put(settings)
        try:
            if self.on_gpus:
                largest = max(node.gpus for node in self._census.usable.values())
                where = "the largest node of the cluster has"
                yield from schedule.refuse(partial(too_large, most=largest, where=where))
            while not schedule.finished:
                yield from self._count_nodes(schedule)
                self._hand_out(schedule)
                self._start_workers(shared, schedule)
                events: list[ShardOutcome | Notice] = []
                answers = {waiting.answer: waiting for waiting in self._workers if waiting.answer is not None}
                ready = self._ready_answers(list(answers))
                if not ready:
                    yield None
                for answer in ready:
                    events += self._receive(answers[answer], schedule)
                self._hand_out(schedule)
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

    def _count_nodes(self, schedule: Schedule) -> Iterator[ShardOutcome | Notice]:
        departed, notices = self._census.take()
        yield from notices
        for node in departed:
            for worker in [busy for busy in self._workers if busy.node == node.id]:
                yield from self._lose(worker, "Its node has left", schedule)
            for ref in [ref for name, ref in self._lost if name == node.id]:
                schedule.deaths[ref] -= 1  # It has no fault.

    def _start_workers(self, settings: Any, schedule: Schedule) -> None:
        slots = [slot for slot in self._slots() if not self._census.rests(slot.node)]
        while (start := next_start(schedule.ready(), slots, self._workers, self._settings.workers)) is not None:
            seat, ended = start
            for ended_worker in ended:
                self._end(ended_worker, schedule)
            slot = seat.slots[0]
            name = f"{self._census.usable[slot.node].name}, worker {slot.number + 1}"
            options = {"num_cpus": 1, "num_gpus": len(seat.gpus), "max_restarts": 0, "max_task_retries": 0}
            node = on_node(self._ray, slot.node)
            remote = self._ray.remote(NodeWorker).options(**options, scheduling_strategy=node).remote
            started = remote(settings, len(seat.gpus), name)
            worker = _Worker(seat=seat, name=name, ready=False, actor=started, answer=started.ready.remote())
            self._workers.append(worker)

    def _hand_out(self, schedule: Schedule) -> None:
        for worker, shard in schedule.hand_out(self._workers):
            worker.answer = worker.actor.compute.remote(shard)

    def _ready_answers(self, answers: Sequence[Any]) -> list[Any]:
        """Return all new answers. Wait a moment for the first of them."""
        if not answers:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            return []
        first_ready, _ = self._ray.wait(answers, timeout=_SECONDS_BETWEEN_LOOKS, fetch_local=True)
        if not first_ready:
            return []
        ready, _ = self._ray.wait(answers, num_returns=len(answers), timeout=0, fetch_local=True)
        return list(ready)

    def _receive(self, worker: _Worker, schedule: Schedule) -> list[ShardOutcome | Notice]:
        try:
            answer = self._ray.get(worker.answer)
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
        if isinstance(answer, str):
            # It would take shard after shard. A new worker is started after a while, if the node is still used.
            self._end(worker, schedule)
            schedule.put_back(shard.ref)
            return self._cannot_start(worker, answer)
        self._census.started(worker.node)
        return schedule.report(answer, worker.name)

    def _lose(self, worker: _Worker, reason: str, schedule: Schedule) -> list[ShardOutcome | Notice]:
        """End a worker whose actor failed or is gone. If its node is gone too, Ray reports this later."""
        self._end(worker, schedule)
        self._census.soon()
        if worker.shard is None:
            return [] if worker.ready else self._cannot_start(worker, reason)
        self._lost.append((worker.node, worker.shard.ref))
        return schedule.report(ShardOutcome.of_death(worker.shard.ref, reason), worker.name)

    def _cannot_start(self, worker: _Worker, reason: str) -> list[ShardOutcome | Notice]:
        return list(self._census.failed_start(worker.node, self._name_of(worker), reason))

    def _end(self, worker: _Worker, schedule: Schedule) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
        schedule.workers.pop(worker.name, None)
        with suppress(Exception):  # It is gone already.
            self._ray.kill(worker.actor)

    def _name_of(self, worker: _Worker) -> str:
        return worker.name.partition(",")[0]


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
