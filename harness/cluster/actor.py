"""The connection to a Ray cluster, or to a Ray of its own, and the actor on a node.

The actor has each shard computed by a process, which works in the folder of the run.
"""

import importlib
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prmcal.db.run_folder import workers_folder
from prmcal.errors import ClusterError, DataError
from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.local import WorkerDiedError, WorkerProcess
from prmcal.harness.execution.schedule import Outcome
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.messages import excerpt


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The use of a cluster by a run."""

    address: str | None = None
    """``HOST:PORT`` of the head node; None for the cluster on this machine, or a new one."""
    workers: int | None = None
    """The most workers with models; None for as many as there is room for."""


_SECONDS_TO_CONNECT = 5.0
_LONGEST_CAUSE = 600  # Other versions are named in the lines after the first.
_SETTINGS = {
    # With `uv run` on the coordinator, Ray would start the workers in an environment of their own.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # The workers set CUDA_VISIBLE_DEVICES themselves. Without this, Ray prints a warning about it.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect to a cluster while the block runs, and yield the module ``ray``.

    `address` is ``HOST:PORT`` of the head node. By default it is the cluster that runs on this machine, or a new Ray on
    this machine that ends with the run.

    Raises a ClusterError if Ray is not installed, nobody answers at the address, or the versions of Ray or Python
    differ.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if address is not None:
        _check_listening(address)
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise ClusterError(
            "--executor ray needs Ray. Install it in a clone of prmcal: pip install '.[ray]'."
        ) from error
    if ray.is_initialized():
        yield ray  # It belongs to the program that runs the grid, such as a notebook.
        return
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    try:
        ray.init(address=address, include_dashboard=False, **quiet)
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        where = f"the cluster at {address}" if address else "Ray on this machine"
        why = excerpt(str(error) or type(error).__name__, _LONGEST_CAUSE)
        raise ClusterError(
            f"prmcal cannot connect to {where}: {why.rstrip('.')}. If the cluster was started with a token, set "
            "RAY_AUTH_MODE=token, and copy ~/.ray/auth_token from its head node."
        ) from error
    try:
        # For each node that is lost, Ray prints the end of that node's log. The log of the run has a sentence instead.
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            yield ray
    finally:
        ray.shutdown()


def _check_listening(address: str) -> None:
    """Raise a ClusterError unless somebody listens at ``HOST:PORT``. Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdigit() or int(port) > 65535:
        raise ClusterError(
            f"--address must be HOST:PORT of the head node, such as 10.0.0.1:6379. Got {address!r}."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise ClusterError(
            f"Nobody listens at {address} ({error.strerror or error}). Start the head node: "
            f"ray start --head --port {port}. `ray status` shows the address of a cluster."
        ) from error


_SECONDS_BETWEEN_LOOKS = 0.5
# A shared file system may show a new file to other machines only after a while.
_SECONDS_UNTIL_SHARED = 60.0


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """The settings that all actors of a run share."""

    directory: Path
    """The output folder of the run, as an absolute path."""
    working_directory: Path
    """The working directory of the run. Actors use it if they have it, for relative paths in the grid."""
    token: str
    """The content of the file `directory`/workers/token. A node that can read it shares the folder."""
    plugin_files: Mapping[Path, Path]
    """The copies of plugin files in `directory`, by the absolute paths of the files."""
    modules: Path
    """The folder in `directory` with copies of the modules that the plugin files import."""
    time_limit: float
    """The longest time of a shard in seconds."""


@dataclass(frozen=True, slots=True)
class Death:
    """The death of the process that computed a shard."""

    reason: str
    """The manner of its death, as a sentence without a full stop."""
    lines: tuple[str, ...]
    """The last lines that it wrote."""
    started: bool
    """True if it had started. If not, the shard is not to blame."""


class NodeWorker:
    """Computes one shard after the other on a node. Ray calls its methods.

    `gpus` is how many GPUs Ray has given to it, and `name` is what the progress calls it.
    """

    def __init__(self, settings: ActorSettings, gpus: int, name: str) -> None:
        self._settings = settings
        self._variables = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
        self._process: WorkerProcess | None = None
        self._note = ""
        own = name.replace(",", "").replace(" ", "-")
        self._output = workers_folder(settings.directory) / f"{own}-{os.getpid()}.txt"
        sys.path.insert(0, str(settings.modules))
        if settings.working_directory.is_dir():
            os.chdir(settings.working_directory)

    def ready(self) -> bool:
        """Return whether the node sees the folder of the run. Ray answers when the actor has started."""
        try:
            return token_file(self._settings.directory).read_text() == self._settings.token
        except OSError:
            return False

    def note(self) -> str:
        """Return the latest line about the progress of the shard. It may be called while the shard is computed."""
        return self._note

    def compute(self, shard: Shard[Parameters]) -> Outcome | Death:
        """Compute a shard. Its artifact is in the folder of the run when this returns."""
        self._note = ""
        store = Store(self._settings.directory)
        for ref in [ref for each in shard.inputs.values() for ref in each]:
            _wait_until_shared(store, ref)
        process = self._living_process()
        try:
            process.send(shard)
            begin = time.monotonic()
            while True:
                if process.connection.poll(_SECONDS_BETWEEN_LOOKS):
                    message = process.receive(shard)
                    if isinstance(message, Outcome):
                        if process.spent:
                            self.close()
                        return message
                    self._note = message
                if time.monotonic() - begin > self._settings.time_limit:
                    self.close()
                    failure = Failure.of_time(self._settings.time_limit)
                    return Outcome(shard.ref, failure=failure, log=process.last_lines())
        except WorkerDiedError as death:
            self.close()
            return Death(str(death), process.last_lines(), process.started)

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


def token_file(directory: Path) -> Path:
    """Return the path of the file by which a node finds out whether it shares the folder of a run."""
    return workers_folder(directory) / "token"


def _wait_until_shared(store: Store, ref: ArtifactRef) -> None:
    end = time.monotonic() + _SECONDS_UNTIL_SHARED
    while store.manifest(ref.kind, ref.key, verify=False) is None:
        if time.monotonic() > end:
            raise DataError(f"The artifact {store.folder(ref.kind, ref.key)} does not appear on this node.")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
