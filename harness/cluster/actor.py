"""The actor on a node: it brings the inputs of a shard, has it computed by a process, and sends back the artifact.

The process is the same as on one machine. The actor runs nothing of a plugin, so it stays alive whatever plugins do.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prmcal.db.run_folder import workers_folder
from prmcal.errors import DataError, StorageError
from prmcal.harness.cluster.cache import NodeCache, cache_root
from prmcal.harness.execution.failures import Failure
from prmcal.harness.execution.local import WorkerDiedError, WorkerProcess
from prmcal.harness.execution.schedule import Outcome
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.storage.keys import ArtifactRef, content_key
from prmcal.harness.storage.store import Store

__all__ = ["ActorSettings", "Death", "NodeWorker", "token_file"]

_SECONDS_BETWEEN_LOOKS = 0.5
# A shared file system may show a new file to other machines only after a while.
_SECONDS_UNTIL_SHARED = 60.0


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """What all actors of a run are given.

    Attributes
    ----------
    run : str
        What is special for this run: the host and the path of its folder. It names the run's part of a node's cache.
    directory : Path
        The output folder of the run, as an absolute path.
    working_directory : Path
        The working directory of the run. Actors use it if they have it, for relative paths in the grid.
    token : str
        The content of the file `directory`/workers/token. A node that can read it shares the folder.
    shared : bool or None
        Whether nodes share the folder of the run; None to find out.
    plugin_files : mapping of str to bytes
        The content of plugin files, by their absolute paths.
    modules : mapping of str to bytes
        The content of modules that the plugin files import, by their paths relative to the folder that Python
        searches.
    time_limit : float
        The longest time of a shard in seconds.
    cache_limit : int
        The size of the cache of a node in bytes.
    """

    run: str
    directory: Path
    working_directory: Path
    token: str
    shared: bool | None
    plugin_files: Mapping[str, bytes]
    modules: Mapping[str, bytes]
    time_limit: float
    cache_limit: int


@dataclass(frozen=True, slots=True)
class Death:
    """The death of the process that computed a shard.

    Attributes
    ----------
    reason : str
        How it died, as a sentence without a full stop.
    lines : tuple of str
        The last lines that it wrote.
    started : bool
        Whether it had started. If not, the shard is not to blame.
    """

    reason: str
    lines: tuple[str, ...]
    started: bool


class NodeWorker:
    """Computes one shard after the other on a node. Ray calls its methods.

    Parameters
    ----------
    settings : ActorSettings
    gpus : int
        How many GPUs Ray has given to it.
    name : str
        What the progress calls it.
    server : actor handle
        The file server of the run.
    """

    def __init__(self, settings: ActorSettings, gpus: int, name: str, server: Any) -> None:
        import ray

        self._settings = settings
        self._node = name.partition(",")[0]
        self._variables = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
        self._process: WorkerProcess | None = None
        self._note = ""
        # The name of the run's folder on another machine means nothing here.
        self._folder = cache_root() / content_key(settings.run)
        self._output = self._folder / "workers" / f"{name.rpartition(' ')[2]}-{os.getpid()}.txt"
        self._cache = (
            None if self._is_shared() else NodeCache(self._folder, settings.cache_limit, server, ray)
        )
        self._plugin_files = self._receive_plugins()
        if settings.working_directory.is_dir():
            os.chdir(settings.working_directory)

    def ready(self) -> bool:
        """Return whether the node shares the folder of the run. Ray answers when the actor has started."""
        return self._cache is None

    def note(self) -> str:
        """Return the latest line about the progress of the shard. It may be called while the shard is computed."""
        return self._note

    def compute(self, shard: Shard[Parameters]) -> Outcome | Death:
        """Compute a shard. Its artifact is in the folder of the run when this returns."""
        self._note = ""
        refs = [ref for each in shard.inputs.values() for ref in each]
        try:
            if self._cache is None:
                store = Store(self._settings.directory)
                for ref in refs:
                    _wait_until_shared(store, ref)
                return self._computed(shard)
            with self._cache.holding(refs):
                answer = self._computed(shard)
            if isinstance(answer, Outcome) and answer.manifest is not None:
                self._note = "sending the artifact"
                self._cache.send(shard.ref, answer.manifest)
            return answer
        except StorageError as error:
            return Outcome(shard.ref, failure=Failure(f"{self._node}: {error}", "input"), fatal=True)

    def close(self) -> None:
        """End the process that computes the shards. If the actor is killed, the process ends by itself."""
        self._end()

    def _computed(self, shard: Shard[Parameters]) -> Outcome | Death:
        process = self._living_process()
        try:
            process.send(shard)
            begin = time.monotonic()
            while True:
                if process.connection.poll(_SECONDS_BETWEEN_LOOKS):
                    message = process.receive(shard)
                    if isinstance(message, Outcome):
                        return message
                    self._note = message
                if time.monotonic() - begin > self._settings.time_limit:
                    self._end()
                    failure = Failure.of_time(self._settings.time_limit)
                    return Outcome(shard.ref, failure=failure, log=process.last_lines())
        except WorkerDiedError as death:
            self._end()
            return Death(str(death), process.last_lines(), process.started)

    def _living_process(self) -> WorkerProcess:
        if self._process is not None and not self._process.alive:
            self._end()  # It died while it was idle.
        if self._process is None:
            directory = self._settings.directory if self._cache is None else self._folder
            self._process = WorkerProcess(directory, self._plugin_files, self._output, self._variables)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _is_shared(self) -> bool:
        if self._settings.shared is not None:
            return self._settings.shared
        try:
            return token_file(self._settings.directory).read_text() == self._settings.token
        except OSError:
            return False

    def _receive_plugins(self) -> list[Path]:
        """Return the plugin files on this node. Those that it does not have are written into its cache."""
        contents = [*self._settings.plugin_files.values(), *self._settings.modules.values()]
        digest = hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]
        folder = self._folder / "plugins" / digest
        for name, content in self._settings.modules.items():
            _write_once(folder / "modules" / name, content)
        if self._settings.modules:
            sys.path.insert(0, str(folder / "modules"))
        found: list[Path] = []
        for path, content in self._settings.plugin_files.items():
            there = Path(path)
            if not (there.is_file() and there.read_bytes() == content):
                there = _write_once(folder / str(len(found)) / there.name, content)
            found.append(there)
        return found


def token_file(directory: Path) -> Path:
    """Return the path of the file by which a node finds out whether it shares the folder of a run."""
    return workers_folder(directory) / "token"


def _wait_until_shared(store: Store, ref: ArtifactRef) -> None:
    end = time.monotonic() + _SECONDS_UNTIL_SHARED
    while store.manifest(ref.kind, ref.key, verify=False) is None:
        if time.monotonic() > end:
            raise DataError(f"The artifact {store.folder(ref.kind, ref.key)} does not appear on this node.")
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _write_once(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(content)
        temporary.replace(path)
    return path
