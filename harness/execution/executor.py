"""Executors run the shards of a schedule somewhere and report what became of them.

The interface is one method: take shards from the schedule, run ``prmcal.harness.execution.worker.run_shard`` on each of
them anywhere, and yield outcomes. A shard is plain data and a pure function of its inputs, so an executor needs nothing
else.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Protocol

from prmcal.harness.execution.schedule import Outcome, Schedule
from prmcal.harness.execution.worker import serve
from prmcal.harness.jobs.job import Shard
from prmcal.harness.machine.gpus import gpu_environment

__all__ = ["Executor", "LocalExecutor"]

# One thread a worker: results do not depend on the number of cores, and busy machines do not collapse.
_WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "TOKENIZERS_PARALLELISM": "false",
}


class Executor(Protocol):
    """Runs what a schedule hands out."""

    def run(self, schedule: Schedule) -> Iterator[Outcome | None]:
        """Yield an outcome for every shard, in any order, and None now and then while waiting.

        A failed shard's dependents are reported too, as ``schedule.finish`` returns them.
        """


@dataclass
class _Worker:
    place: int
    process: SpawnProcess
    connection: Connection
    loaded: str = ""
    shard: Shard | None = None


class LocalExecutor:
    """Processes on this machine; each keeps its model loaded while there is work for it.

    Parameters
    ----------
    directory : Path
        The run's output folder.
    workers : int
        How many processes. Each has its share of the GPUs.
    plugin_files : sequence of Path
        Plugin files that every worker loads.
    """

    def __init__(self, directory: Path, workers: int, plugin_files: Sequence[Path] = ()) -> None:
        self.directory = directory
        self.workers = workers
        self.plugin_files = tuple(plugin_files)

    def run(self, schedule: Schedule) -> Iterator[Outcome | None]:
        """See Executor. Workers are started when there is work and stopped in every case."""
        workers: list[_Worker] = []
        try:
            while not schedule.finished:
                self._hand_out(schedule, workers)
                busy = [worker for worker in workers if worker.shard is not None]
                ready = wait([worker.connection for worker in busy], timeout=0.5)
                if not ready:
                    yield None
                collected = [self._collect(w, workers, schedule) for w in busy if w.connection in ready]
                outcomes = [each for found in collected if found for each in schedule.finish(found)]
                # Before the outcomes are recorded, so that no worker waits for the database.
                self._hand_out(schedule, workers)
                yield from outcomes
        finally:
            for worker in workers:
                self._end(worker)

    def _hand_out(self, schedule: Schedule, workers: list[_Worker]) -> None:
        for worker in workers:
            if worker.shard is None and not self._give(schedule, worker):
                return
        while len(workers) < self.workers:
            shard = schedule.take()
            if shard is None:
                return
            worker = self._start(min(set(range(self.workers)) - {each.place for each in workers}))
            workers.append(worker)
            self._send(worker, shard)

    def _give(self, schedule: Schedule, worker: _Worker) -> bool:
        shard = schedule.take(worker.loaded)
        if shard is not None:
            self._send(worker, shard)
        return shard is not None

    @staticmethod
    def _send(worker: _Worker, shard: Shard) -> None:
        worker.shard = shard
        worker.loaded = shard.resource or worker.loaded
        worker.connection.send(shard)

    def _start(self, place: int) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        before = dict(os.environ)
        os.environ.update(_WORKER_ENVIRONMENT | gpu_environment(self.workers, place))
        # Ctrl-C is the coordinator's to handle: it records what is done, then ends its workers. They are born deaf to
        # it, since one that is still starting would die with a traceback.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = context.Process(
                target=serve,
                args=(theirs, self.directory, self.plugin_files),
                name="prmcal-worker",
                daemon=True,
            )
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            os.environ.clear()
            os.environ.update(before)
        theirs.close()
        return _Worker(place, process, ours)

    @staticmethod
    def _end(worker: _Worker) -> None:
        """End a worker and all that its plugins have started, such as an engine that holds a GPU."""
        assert worker.process.pid is not None
        with suppress(ProcessLookupError):  # It has no group yet, or all of it has ended.
            os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.kill()
        worker.process.join()

    @staticmethod
    def _collect(worker: _Worker, workers: list[_Worker], schedule: Schedule) -> Outcome | None:
        """The outcome of a worker's shard; None if it only said how far it is."""
        assert worker.shard is not None
        try:
            message: Outcome | str = worker.connection.recv()
        except (EOFError, OSError):
            LocalExecutor._end(worker)
            workers.remove(worker)
            message = Outcome(
                worker.shard.ref,
                reason=f"The worker process ended with code {worker.process.exitcode} "
                "(out of memory, or a crash in native code).",
            )
        if isinstance(message, str):
            schedule.notes[worker.shard.ref] = message
            return None
        worker.shard = None
        return message
