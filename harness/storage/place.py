"""Where results are read from: the output folder of a run, or a database in a PostgreSQL server."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import sqlalchemy as sa

from prmcal.db.connection import connect, engine_for
from prmcal.db.postgresql.connection import reading
from prmcal.db.postgresql.content import copy_content
from prmcal.db.reader import Database
from prmcal.db.writer import Writer
from prmcal.harness.storage.folder import RunFolder

__all__ = ["Place", "local_folder", "results_of"]

Place = Path | sa.URL
"""The output folder of a run, or the address of a database in a server."""


def results_of(place: Place) -> Database:
    """Return the database that queries read.

    Raises
    ------
    RunError
        If the folder has no database.
    """
    return place if isinstance(place, sa.URL) else RunFolder(place).results()


def local_folder(place: Place) -> Path:
    """Return a folder with the published database: the folder itself, or one with a copy of what the server has now.

    A folder with a copy has no artifacts. It is in the user's cache, ``~/.cache/prmcal``, where the next copy replaces
    it in one step, also for programs that read it.

    Raises
    ------
    DatabaseError
        If the server cannot be read.
    StorageError
        If the copy cannot be written.
    """
    if isinstance(place, Path):
        return place
    digest = hashlib.sha256(str(place).encode()).hexdigest()[:8]
    # The name of the folder is the name of the run on pages and in reports.
    folder = RunFolder(_cache() / digest / (place.database or "leaderboard").replace("/", "-"))
    with folder.lock(), reading(place) as server:
        folder.database.unlink(missing_ok=True)  # The published copy stays until the new one takes its place.
        writer = Writer(folder.database)
        with connect(engine_for(writer.path), writer.path, patience=0.0) as file, file.begin():
            copy_content(server, file, folder.directory)
        writer.publish()
    return folder.directory


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prmcal"
