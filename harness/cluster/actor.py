"""The actor on a node: it has each shard computed by a process, which works in the folder of the run."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prmcal.db.run_folder import workers_folder
from prmcal.errors import DataError
from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.local import WorkerDiedError, WorkerProcess
from prmcal.harness.execution.schedule import Outcome
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.storage.store import ArtifactRef, Store

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
    while store.manifest(ref, verify=False) is None:
        if time.monotonic() > end:
            raise DataError(f"The artifact {store.folder(ref)} does not appear on this node.")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
