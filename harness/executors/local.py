"""The executor that computes shards in processes on this machine."""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from prmcal.db.run_folder import workers_folder
from prmcal.errors import RunError
from prmcal.harness.executors.executor import Event, Notice
from prmcal.harness.executors.process import WorkerDiedError, WorkerProcess
from prmcal.harness.executors.tries import MOST_TRIES, after_death
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.machine.gpus import gpu_environment
from prmcal.harness.scheduling.failures import Failure
from prmcal.harness.scheduling.schedule import Outcome, Schedule

__all__ = ["LocalExecutor"]

_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass
class _Worker:
    place: int
    process: WorkerProcess
    shard: Shard[Parameters] | None = None

    @property
    def name(self) -> str:
        return f"worker {self.place + 1}"


class LocalExecutor:
    """Run shards in processes on this machine. Each process keeps its model loaded while there is work for it.

    Parameters
    ----------
    directory : Path
        The output folder of the run.
    workers : int
        The number of processes. Each has its share of the GPUs.
    plugin_files : sequence of Path
        Plugin files that every worker loads.
    time_limit : float, optional
        The longest time of a shard in seconds. A shard that takes longer fails.
    """

    def __init__(
        self,
        directory: Path,
        workers: int,
        plugin_files: Sequence[Path] = (),
        time_limit: float = float("inf"),
    ) -> None:
        self.directory = directory
        self.workers = workers
        self.plugin_files = tuple(plugin_files)
        self.time_limit = time_limit
        self._running: list[_Worker] = []
        self._failed_starts = 0

    def run(self, schedule: Schedule) -> Generator[Event]:
        """See :meth:`Executor.run`. Workers start when there is work, and they always stop at the end."""
        try:
            while not schedule.finished:
                self._hand_out(schedule)
                ready = wait([w.process.connection for w in self._running], timeout=_SECONDS_BETWEEN_LOOKS)
                if not ready:
                    yield None
                events = [
                    event
                    for worker in list(self._running)
                    for event in self._look_at(worker, worker.process.connection in ready, schedule)
                ]
                # This comes before the outcomes are recorded, so that no worker waits for the database.
                self._hand_out(schedule)
                yield from events
        finally:
            for worker in list(self._running):
                self._end(worker, schedule)
            shutil.rmtree(workers_folder(self.directory), ignore_errors=True)

    def _hand_out(self, schedule: Schedule) -> None:
        for worker in list(self._running):
            if worker.shard is None:
                shard = schedule.take(worker.process.loaded)
                if shard is None:
                    return
                self._send(worker, shard, schedule)
        while len(self._running) < self.workers:
            shard = schedule.take()
            if shard is None:
                return
            self._send(self._start(schedule), shard, schedule)

    def _start(self, schedule: Schedule) -> _Worker:
        place = min(set(range(self.workers)) - {each.place for each in self._running})
        output = workers_folder(self.directory) / f"{place + 1}.txt"
        variables = gpu_environment(self.workers, place)
        worker = _Worker(place, WorkerProcess(self.directory, self.plugin_files, output, variables))
        self._running.append(worker)
        schedule.workers[worker.name] = None
        return worker

    def _send(self, worker: _Worker, shard: Shard[Parameters], schedule: Schedule) -> None:
        worker.shard = shard
        schedule.workers[worker.name] = shard.ref
        try:
            worker.process.send(shard)
        except WorkerDiedError:
            # It died while it was idle, without a fault of this shard.
            schedule.put_back(shard.ref)
            self._end(worker, schedule)

    def _look_at(self, worker: _Worker, ready: bool, schedule: Schedule) -> list[Outcome | Notice]:
        """Read a message of a worker, and end it if it died or takes too long. Return what is to be told."""
        shard = worker.shard
        if shard is None:
            if ready:
                self._end(worker, schedule)
            return []
        if ready:
            try:
                message = worker.process.receive(shard)
            except WorkerDiedError as death:
                self._end(worker, schedule)
                if not worker.process.started:
                    return self._after_failed_start(schedule, shard, str(death), worker.process.last_lines())
                return after_death(schedule, shard, str(death), worker.process.last_lines())
            self._failed_starts = 0
            if isinstance(message, Outcome):
                worker.shard = schedule.workers[worker.name] = None
                return list(schedule.finish(message))
            schedule.notes[shard.ref] = message
        if time.monotonic() - schedule.started[shard.ref] > self.time_limit:
            self._end(worker, schedule)
            failure = Failure.of_time(self.time_limit)
            return list(schedule.finish(Outcome(shard.ref, failure=failure, log=worker.process.last_lines())))
        return []

    def _after_failed_start(
        self, schedule: Schedule, shard: Shard[Parameters], reason: str, lines: Sequence[str]
    ) -> list[Outcome | Notice]:
        """Put a shard back whose worker did not start. End the run if this has happened several times in a row."""
        self._failed_starts += 1
        if self._failed_starts >= MOST_TRIES:
            last = f" It wrote: {lines[-1].strip()}" if lines else ""
            raise RunError(f"Workers cannot start. {reason}.{last}")
        schedule.put_back(shard.ref)
        return [Notice(f"{reason} before it had started. Another one is started.", tuple(lines))]

    def _end(self, worker: _Worker, schedule: Schedule) -> None:
        worker.process.end()
        self._running.remove(worker)
        schedule.workers.pop(worker.name, None)
