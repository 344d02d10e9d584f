"""The files of a run for nodes that do not share its folder. They travel in pieces, and hashes verify them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from prmcal.errors import DataError
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Manifest, Store, storage_errors

__all__ = ["PIECE", "FileServer"]

PIECE = 8 * 2**20
"""The most bytes that are sent at once. It bounds the memory that a large artifact needs on its way."""


class FileServer:
    """Reads and writes the artifacts of a run for the workers of other nodes. It runs as an actor beside the run.

    All methods can be repeated. So Ray may start the actor again and repeat a call.

    Parameters
    ----------
    directory : Path
        The output folder of the run.
    """

    def __init__(self, directory: Path) -> None:
        self._store = Store(directory)

    def manifest(self, ref: ArtifactRef) -> Manifest:
        """Return the manifest of an artifact.

        Raises
        ------
        DataError
            If the artifact is absent.
        """
        manifest = self._store.manifest(ref.kind, ref.key, verify=False)
        if manifest is None:
            raise DataError(
                f"The artifact {self._store.folder(ref.kind, ref.key)} is absent. Run the grid again."
            )
        return manifest

    def read(self, ref: ArtifactRef, name: str, offset: int) -> bytes:
        """Return at most PIECE bytes of a file of an artifact, from `offset` on."""
        with (self._store.folder(ref.kind, ref.key) / name).open("rb") as file:
            file.seek(offset)
            return file.read(PIECE)

    def begin(self, ref: ArtifactRef) -> str:
        """Return a new temporary folder for an artifact that a worker is going to send."""
        target = self._store.folder(ref.kind, ref.key)
        with storage_errors(self._store.directory):
            target.parent.mkdir(parents=True, exist_ok=True)
            return tempfile.mkdtemp(prefix=f".{ref.key}-", dir=target.parent)

    def write(self, folder: str, name: str, offset: int, piece: bytes) -> None:
        """Write a piece of a file into a temporary folder.

        Raises
        ------
        StorageError
            If the disk is full.
        """
        path = Path(folder) / name
        with storage_errors(self._store.directory):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("r+b" if path.exists() else "wb") as file:
                file.seek(offset)
                file.write(piece)

    def finish(self, folder: str, ref: ArtifactRef, manifest: Manifest) -> None:
        """Verify the files of a temporary folder, and rename it into place.

        Raises
        ------
        DataError
            If a file does not match its hash. The temporary folder is deleted.
        """
        if not Path(folder).exists():
            return  # The call is repeated.
        try:
            self._store.adopt(ref, Path(folder), manifest)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
