"""The executor on this machine, and the contract of all executors.

The processes of the executor end with all that their plugins start.
"""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

from prmcal.db.run_folder import workers_folder
from prmcal.errors import RunError
from prmcal.harness.execution import machine
from prmcal.harness.execution.events import Event, Notice, ShardOutcome
from prmcal.harness.execution.schedule import MOST_TRIES, Schedule
from prmcal.harness.execution.worker import ONE_THREAD, serve, starting_with
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters

_ENVIRONMENT = {**ONE_THREAD, "TOKENIZERS_PARALLELISM": "false"}
_LAST_LINES = 20
_BYTES_OF_LAST_LINES = 8192
_SECONDS_TO_END = 5.0
_SECONDS_BETWEEN_LOOKS = 0.5


class WorkerDiedError(Exception):
    """The process has ended, or its messages can no longer be read. The message says how, without a full stop."""


class WorkerProcess:
    """A process that computes one shard after the other.

    It reads and writes artifacts in `directory`, and writes its standard output and standard error to the file
    `output`. `variables` are environment variables that it gets in addition to those of this process, such as
    CUDA_VISIBLE_DEVICES.

    Attributes
    ----------
    connection : Connection
        It is ready to be read when the process has sent a message or has ended.
    started : bool
        True after its first message. If the process dies before, no shard is to blame.
    spent : bool
        True if another process must take its place, because a model broke in it.
    """

    def __init__(
        self, directory: Path, plugin_files: Sequence[Path], output: Path, variables: Mapping[str, str]
    ) -> None:
        self.started = self.spent = False
        self._written = 0
        self._output = output
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(b"")  # An earlier process may have written it.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # The coordinator handles Ctrl-C: it records what is done and then stops the workers. Workers start with SIGINT
        # blocked, because a worker that is still starting would print a traceback.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with starting_with({**_ENVIRONMENT, **variables}):
                args = theirs, directory, tuple(plugin_files), output
                self._process = context.Process(target=serve, args=args, name="prmcal-worker", daemon=True)
                self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        theirs.close()

    @property
    def alive(self) -> bool:
        """True as long as the process has not ended."""
        return self._process.is_alive()

    def send(self, shard: Shard[Parameters]) -> None:
        """Give it a shard.

        Raises a WorkerDiedError if it has ended.
        """
        with suppress(OSError):
            self._written = self._output.stat().st_size
        try:
            self.connection.send(shard)
        except OSError as error:
            raise WorkerDiedError(self._death()) from error

    def receive(self) -> ShardOutcome | str:
        """Return the next message about its shard: a line about the progress, or the outcome.

        Raises a WorkerDiedError if it has ended, or its message cannot be understood.
        """
        try:
            message: ShardOutcome | str = self.connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerDiedError(self._death()) from error
        except Exception as error:  # A plugin wrote to the connection.
            raise WorkerDiedError("A worker sent a message that cannot be read") from error
        self.started = True
        if isinstance(message, str) or message.failure is None or not message.broken:
            return message
        self.spent, lines = True, self.last_lines(self._written)
        return replace(message, failure=message.failure.with_root(lines), log=(*message.log, *lines))

    def end(self) -> None:
        """Stop it and all processes that its plugins started, such as an engine on a GPU."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):  # It has no process group yet, or the whole group has ended.
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self.connection.close()

    def last_lines(self, begin: int = 0) -> tuple[str, ...]:
        """Return the last lines that it wrote to its standard output and standard error, after the byte `begin`."""
        try:
            with self._output.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(begin, file.tell() - _BYTES_OF_LAST_LINES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        return tuple(text.splitlines()[-_LAST_LINES:])

    def _death(self) -> str:
        """Wait for the end of the process, and say how it ended."""
        self._process.join(_SECONDS_TO_END)
        code = self._process.exitcode
        if code is None:
            return "The worker process closed its connection"
        if code == -signal.SIGKILL:
            return "The worker process was killed (SIGKILL), usually because the machine ran out of memory"
        if code < 0:
            return f"The worker process crashed in native code ({signal.Signals(-code).name})"
        return f"The worker process ended itself with code {code}"


@dataclass(eq=False, kw_only=True)
class _Worker(machine.Worker):
    process: WorkerProcess


class LocalExecutor:
    """Run shards in processes on this machine. Each process keeps its model loaded while there is work for it.

    Each of at most `workers` processes loads the plugin files. The workers share the GPUs evenly, except that a worker
    with larger models has the GPUs of several.
    """

    def __init__(self, directory: Path, workers: int, plugin_files: Sequence[Path] = ()) -> None:
        self.directory = directory
        self.plugin_files = tuple(plugin_files)
        self._gpus = machine.visible_gpus()
        self.on_gpus = bool(self._gpus)
        self._slots = machine.slots_of_machine(self._gpus, workers)
        self._running: list[_Worker] = []
        self._failed_starts = 0

    def run(self, schedule: Schedule) -> Generator[Event]:
        """See :meth:`Executor.run`. Workers start when there is work, and they always stop at the end."""
        try:
            if self._gpus:
                too_large = partial(machine.too_large, most=len(self._gpus), where="this machine has")
                yield from schedule.refuse(too_large)
            while not schedule.finished:
                self._hand_out(schedule)
                ready = wait([w.process.connection for w in self._running], timeout=_SECONDS_BETWEEN_LOOKS)
                if not ready:
                    yield None
                heard_workers = [worker for worker in self._running if worker.process.connection in ready]
                events = [event for worker in heard_workers for event in self._look_at(worker, schedule)]
                # This comes before the outcomes are recorded, so that no worker waits for the database.
                self._hand_out(schedule)
                yield from events
        finally:
            for worker in list(self._running):
                self._end(worker, schedule)
            shutil.rmtree(workers_folder(self.directory), ignore_errors=True)

    def _hand_out(self, schedule: Schedule) -> None:
        """Give shards to idle workers, and start workers for the other shards that are ready."""
        for worker, shard in schedule.hand_out(self._running):
            self._send(worker, shard, schedule)
        for _ in self._slots:
            start = machine.next_start(schedule.ready(), self._slots, self._running)
            if start is None:
                return
            seat, ended = start
            for idle_worker in ended:
                self._end(idle_worker, schedule)
            for worker, shard in schedule.hand_out([self._start(seat, schedule)]):
                self._send(worker, shard, schedule)

    def _start(self, seat: machine.Seat, schedule: Schedule) -> _Worker:
        number = seat.slots[0].number + 1
        output = workers_folder(self.directory) / f"{number}.txt"
        variables = {machine.GPU_VARIABLE: ",".join(seat.gpus)} if seat.gpus else {}
        process = WorkerProcess(self.directory, self.plugin_files, output, variables)
        worker = _Worker(seat=seat, name=f"worker {number}", process=process)
        self._running.append(worker)
        schedule.workers[worker.name] = None
        return worker

    def _send(self, worker: _Worker, shard: Shard[Parameters], schedule: Schedule) -> None:
        try:
            worker.process.send(shard)
        except WorkerDiedError:
            # It died while it was idle, without a fault of this shard.
            schedule.put_back(shard.ref)
            self._end(worker, schedule)

    def _look_at(self, worker: _Worker, schedule: Schedule) -> list[ShardOutcome | Notice]:
        """Read a message of a worker, and end it if it died. Return the events to be reported."""
        shard = worker.shard
        if shard is None:
            self._end(worker, schedule)
            return []
        try:
            message = worker.process.receive()
        except WorkerDiedError as death:
            self._end(worker, schedule)
            lines = worker.process.last_lines()
            if worker.process.started:
                return schedule.report(ShardOutcome.of_death(shard.ref, str(death), lines), worker.name)
            # The shard is not at fault, but a worker that fails several times in a row never starts.
            self._failed_starts += 1
            if self._failed_starts >= MOST_TRIES:
                last = f" It wrote: {lines[-1].strip()}" if lines else ""
                raise RunError(f"Workers cannot start. {death}.{last}") from death
            schedule.put_back(shard.ref)
            return [Notice(f"{death} before it had started. Another one is started.", lines)]
        self._failed_starts = 0
        if isinstance(message, str):
            schedule.notes[shard.ref] = message
            return []
        worker.shard = schedule.workers[worker.name] = None
        if worker.process.spent:
            self._end(worker, schedule)
        return schedule.report(message, worker.name)

    def _end(self, worker: _Worker, schedule: Schedule) -> None:
        worker.process.end()
        self._running.remove(worker)
        schedule.workers.pop(worker.name, None)


class Executor(Protocol):
    """Runs the shards of a schedule."""

    @property
    def on_gpus(self) -> bool:
        """True if models run on GPUs."""

    def run(self, schedule: Schedule) -> Generator[Event]:
        """Yield the outcome of every shard, in any order, and None from time to time while waiting.

        They include outcomes of shards that depend on a failed shard, from ``schedule.report``. Notices may come
        between them. All workers end when the generator is closed.
        """
