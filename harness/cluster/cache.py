"""The artifacts that a node keeps, if it does not share the folder of the run."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from prmcal.db.run_folder import artifacts_root
from prmcal.harness.cluster.files import PIECE
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Manifest, Store, storage_errors

__all__ = ["CACHE_VARIABLE", "NodeCache", "cache_root"]

CACHE_VARIABLE = "PRMCAL_NODE_CACHE"
"""The environment variable of a node with the folder of its cache."""


def cache_root() -> Path:
    """Return the folder of this node's cache: that in PRMCAL_NODE_CACHE, or one in the folder for temporary files."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"prmcal-{os.getuid()}"


class NodeCache:
    """Artifacts by their keys, in a folder of this node. The workers of one node share it.

    Parameters
    ----------
    folder : Path
        Its folder. It has the form of a run's folder.
    limit : int
        The size in bytes above which artifacts are deleted, those that were not used for the longest time first.
    server : actor handle
        The file server of the run.
    ray : module
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

        Raises
        ------
        DataError
            If one is absent in the folder of the run.
        StorageError
            If the disk of the node is full.
        """
        with ExitStack() as held:
            for ref in refs:
                held.enter_context(self._held(ref))
            self.trim()
            yield

    def send(self, ref: ArtifactRef, manifest: Manifest) -> None:
        """Send an artifact of this node to the folder of the run.

        Raises
        ------
        StorageError
            If the disk of the run's folder is full.
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
            path = self.store.manifest_path(ref)
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
