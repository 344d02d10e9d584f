"""The actor on a node: it brings the inputs of a shard, has it computed by a process, and sends back the artifact.

A node that does not share the folder of the run keeps artifacts that later shards read.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from prmcal.db.run_folder import artifacts_root, workers_folder
from prmcal.errors import DataError, StorageError
from prmcal.harness.cluster.connection import PIECE
from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.local import WorkerDiedError, WorkerProcess
from prmcal.harness.execution.schedule import Outcome
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.storage.store import (
    MANIFEST_FILE,
    ArtifactRef,
    Manifest,
    Store,
    content_key,
    storage_errors,
)

CACHE_VARIABLE = "PRMCAL_NODE_CACHE"
"""The environment variable of a node with the folder of its cache."""


def cache_root() -> Path:
    """Return the folder of this node's cache: that in PRMCAL_NODE_CACHE, or one in the folder for temporary files."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"prmcal-{os.getuid()}"


class NodeCache:
    """Artifacts by their keys, in a folder of this node. The workers of one node share it.

    `folder` has the form of a run's folder. If the artifacts have more than `limit` bytes, those that were not used for
    the longest time are deleted. `server` is the handle of the file server of the run.
    """

    def __init__(self, folder: Path, limit: int, server: Any, ray: Any) -> None:
        self.store = Store(folder)
        self._limit = limit
        self._server = server
        self._ray = ray
        self._received = 0

    @contextmanager
    def holding(self, refs: Sequence[ArtifactRef]) -> Iterator[None]:
        """Bring artifacts to this node, and keep them there while the block runs.

        Raises a DataError if one is absent in the folder of the run. Raises a StorageError if the disk of the node is
        full.
        """
        with ExitStack() as held:
            for ref in refs:
                held.enter_context(self._held(ref))
            self.trim()
            yield

    def send(self, ref: ArtifactRef, manifest: Manifest) -> None:
        """Send an artifact of this node to the folder of the run.

        Raises a StorageError if the disk of the run's folder is full.
        """
        folder = self._call("begin", ref)
        source = self.store.folder(ref.kind, ref.key)
        for name in manifest.files:
            with (source / name).open("rb") as file:
                offset = 0
                while piece := file.read(PIECE):
                    self._call("write", folder, name, offset, piece)
                    offset += len(piece)
                if not offset:
                    self._call("write", folder, name, 0, b"")
        self._call("finish", folder, ref, manifest)
        self._received += sum(size for size, _ in manifest.files.values())

    def _held(self, ref: ArtifactRef) -> IO[str]:
        """Return the open manifest of an artifact, with a lock that keeps it from being deleted."""
        wanted = self._call("manifest", ref)
        while True:
            if self.store.manifest(ref.kind, ref.key, verify=False) != wanted:
                self._fetch(ref, wanted)
            path = self.store.folder(ref.kind, ref.key) / MANIFEST_FILE
            try:
                file = path.open()
                fcntl.flock(file, fcntl.LOCK_SH)
                os.utime(path)  # It was used now.
                return file
            except OSError:  # Another worker deleted it meanwhile.
                continue

    def _fetch(self, ref: ArtifactRef, manifest: Manifest) -> None:
        parent = self.store.folder(ref.kind, ref.key).parent
        with storage_errors(self.store.directory):
            parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f".{ref.key}-", dir=parent))
            try:
                for name, (size, _) in manifest.files.items():
                    path = folder / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("wb") as file:
                        while file.tell() < size and (piece := self._call("read", ref, name, file.tell())):
                            file.write(piece)
                self.store.adopt(ref, folder, manifest)
                self._received += sum(size for size, _ in manifest.files.values())
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._ray.get(getattr(self._server, method).remote(*arguments))

    def trim(self) -> None:
        """Delete artifacts that no worker holds until the cache is as small as it should be.

        This happens when the cache has received a twentieth of its limit since the last time.
        """
        if self._received < self._limit / 20:
            return
        self._received = 0
        found = []
        for path in artifacts_root(self.store.directory).glob("*/*/artifact.json"):
            with suppress(OSError):
                size = sum(each.stat().st_size for each in path.parent.rglob("*") if each.is_file())
                found.append((path.stat().st_mtime_ns, size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit:
                return
            with suppress(OSError), path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
                total -= size


_SECONDS_BETWEEN_LOOKS = 0.5
# A shared file system may show a new file to other machines only after a while.
_SECONDS_UNTIL_SHARED = 60.0


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """The settings that all actors of a run share."""

    run: str
    """The mark of this run: the host and the path of its folder. It names the run's part of a node's cache."""
    directory: Path
    """The output folder of the run, as an absolute path."""
    working_directory: Path
    """The working directory of the run. Actors use it if they have it, for relative paths in the grid."""
    token: str
    """The content of the file `directory`/workers/token. A node that can read it shares the folder."""
    shared: bool | None
    """True if nodes share the folder of the run; None to find out."""
    plugin_files: Mapping[str, bytes]
    """The content of plugin files, by their absolute paths."""
    modules: Mapping[str, bytes]
    """The content of modules that the plugin files import, by their paths relative to the folder that Python
    searches."""
    time_limit: float
    """The longest time of a shard in seconds."""
    cache_limit: int
    """The size of the cache of a node in bytes."""


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

    `gpus` is how many GPUs Ray has given to it, `name` is what the progress calls it, and `server` is the handle of the
    file server of the run.
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
        if self._process is not None:
            self._process.end()
            self._process = None

    def _computed(self, shard: Shard[Parameters]) -> Outcome | Death:
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

    def _living_process(self) -> WorkerProcess:
        if self._process is not None and not self._process.alive:
            self.close()  # It died while it was idle.
        if self._process is None:
            directory = self._settings.directory if self._cache is None else self._folder
            self._process = WorkerProcess(directory, self._plugin_files, self._output, self._variables)
        return self._process

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
