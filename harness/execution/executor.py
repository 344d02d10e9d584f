"""Executors run the shards of a schedule and report their outcomes.

An executor has one method. It takes shards from the schedule, runs ``prmcal.harness.execution.worker.run_shard`` on
each of them, on any machine, and yields their outcomes. A shard is plain data, so an executor needs nothing else.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Protocol

from prmcal.harness.execution.failures import Failure
from prmcal.harness.execution.schedule import Outcome, Schedule
from prmcal.harness.execution.worker import serve
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.machine.gpus import gpu_environment

__all__ = ["Executor", "LocalExecutor"]

# Each worker has one thread, so that results do not depend on the number of cores and busy machines stay responsive.
_WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "TOKENIZERS_PARALLELISM": "false",
}


class Executor(Protocol):
    """Runs the shards of a schedule."""

    def run(self, schedule: Schedule) -> Iterator[Outcome | None]:
        """Yield the outcome of every shard, in any order, and None from time to time while waiting.

        The outcomes include those of shards that depend on a failed shard, which ``schedule.finish`` returns.
        """


@dataclass
class _Worker:
    place: int
    process: SpawnProcess
    connection: Connection
    loaded: str = ""
    shard: Shard[Parameters] | None = None


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
    """

    def __init__(self, directory: Path, workers: int, plugin_files: Sequence[Path] = ()) -> None:
        self.directory = directory
        self.workers = workers
        self.plugin_files = tuple(plugin_files)

    def run(self, schedule: Schedule) -> Iterator[Outcome | None]:
        """See :meth:`Executor.run`. Workers start when there is work, and they always stop at the end."""
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
                # This comes before the outcomes are recorded, so that no worker waits for the database.
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
    def _send(worker: _Worker, shard: Shard[Parameters]) -> None:
        worker.shard = shard
        worker.loaded = shard.resource or worker.loaded
        worker.connection.send(shard)

    def _start(self, place: int) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        # A worker needs nothing of the program that started it. It would import it again, and with it a script that
        # runs a grid would run the grid again.
        before, program = dict(os.environ), sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ.update(_WORKER_ENVIRONMENT | gpu_environment(self.workers, place))
        # The coordinator handles Ctrl-C: it records what is done and then stops the workers. Workers start with SIGINT
        # blocked, because a worker that is still starting would print a traceback.
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
            sys.modules["__main__"] = program
            os.environ.clear()
            os.environ.update(before)
        theirs.close()
        return _Worker(place, process, ours)

    @staticmethod
    def _end(worker: _Worker) -> None:
        """Stop a worker and all processes that its plugins started, such as an engine on a GPU."""
        assert worker.process.pid is not None
        with suppress(ProcessLookupError):  # It has no process group yet, or the whole group has ended.
            os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.kill()
        worker.process.join()

    @staticmethod
    def _collect(worker: _Worker, workers: list[_Worker], schedule: Schedule) -> Outcome | None:
        """Return the outcome of a worker's shard; None if the message is only about its progress."""
        assert worker.shard is not None
        try:
            message: Outcome | str = worker.connection.recv()
        except (EOFError, OSError):
            LocalExecutor._end(worker)
            workers.remove(worker)
            message = Outcome(
                worker.shard.ref,
                failure=Failure(
                    f"The worker process ended with code {worker.process.exitcode} (out of memory, or a crash in "
                    "native code).",
                    "crash",
                ),
            )
        if isinstance(message, str):
            schedule.notes[worker.shard.ref] = message
            return None
        worker.shard = None
        return message
