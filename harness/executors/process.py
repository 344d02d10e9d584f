"""A process that computes shards. It ends together with everything that its plugins start."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from prmcal.harness.executors.environment import ONE_THREAD, starting_with
from prmcal.harness.executors.messages import MessageError, read_message
from prmcal.harness.executors.worker import serve
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.scheduling.schedule import Outcome

__all__ = ["WorkerDiedError", "WorkerProcess"]

_ENVIRONMENT = {**ONE_THREAD, "TOKENIZERS_PARALLELISM": "false"}
_LAST_LINES = 20
_BYTES_OF_LAST_LINES = 8192
_SECONDS_TO_END = 5.0


class WorkerDiedError(Exception):
    """The process has ended, or it can no longer be understood. The message says how, without a full stop."""


class WorkerProcess:
    """A process that computes one shard after the other.

    Parameters
    ----------
    directory : Path
        The folder in which it reads and writes artifacts.
    plugin_files : sequence of Path
        Plugin files that it loads.
    output : Path
        The file to which its standard output and standard error are written.
    variables : mapping of str to str, optional
        Environment variables that it has besides those of this process, such as CUDA_VISIBLE_DEVICES.

    Attributes
    ----------
    connection : Connection
        It is ready to be read when the process has sent a message or has ended.
    loaded : str
        The model that it has loaded; empty for none.
    started : bool
        Whether it has sent a message. If it dies before, no shard is to blame.
    """

    def __init__(
        self,
        directory: Path,
        plugin_files: Sequence[Path],
        output: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.loaded = ""
        self.started = False
        self._output = output
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(b"")  # An earlier process may have written it.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # The coordinator handles Ctrl-C: it records what is done and then stops the workers. Workers start with SIGINT
        # blocked, because a worker that is still starting would print a traceback.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with starting_with({**_ENVIRONMENT, **(variables or {})}):
                self._process = context.Process(
                    target=serve,
                    args=(theirs, directory, tuple(plugin_files), output),
                    name="prmcal-worker",
                    daemon=True,
                )
                self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.is_alive()

    def send(self, shard: Shard[Parameters]) -> None:
        """Give it a shard.

        Raises
        ------
        WorkerDiedError
            If it has ended.
        """
        self.loaded = shard.resource or self.loaded
        try:
            self.connection.send(shard)
        except OSError as error:
            raise WorkerDiedError(self._death()) from error

    def receive(self, shard: Shard[Parameters]) -> Outcome | str:
        """Return the next message about its shard: a line about the progress, or the outcome.

        Raises
        ------
        WorkerDiedError
            If it has ended, or its message cannot be understood.
        """
        try:
            message = read_message(self.connection.recv_bytes(), shard.ref)
            self.started = True
            return message
        except MessageError as error:
            raise WorkerDiedError(str(error).rstrip(".")) from error
        except (EOFError, OSError) as error:
            raise WorkerDiedError(self._death()) from error

    def end(self) -> None:
        """Stop it and all processes that its plugins started, such as an engine on a GPU."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):  # It has no process group yet, or the whole group has ended.
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self.connection.close()

    def last_lines(self) -> tuple[str, ...]:
        """Return the last lines that it wrote to its standard output and standard error."""
        try:
            with self._output.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - _BYTES_OF_LAST_LINES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        return tuple(text.splitlines()[-_LAST_LINES:])

    def _death(self) -> str:
        """Wait for the end of the process, and tell how it ended."""
        self._process.join(_SECONDS_TO_END)
        code = self._process.exitcode
        if code is None:
            return "The worker process closed its connection"
        if code == -signal.SIGKILL:
            return "The worker process was killed (SIGKILL), usually because the machine ran out of memory"
        if code < 0:
            return f"The worker process crashed in native code ({signal.Signals(-code).name})"
        return f"The worker process ended itself with code {code}"
