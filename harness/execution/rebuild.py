"""Rebuild the database of a run from its artifacts."""

from __future__ import annotations

from pathlib import Path

from prmcal.errors import StorageError
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.execution.run import finished_shards
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.scheduling.failures import read_failures
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store

__all__ = ["rebuild_database"]


def rebuild_database(directory: Path) -> int:
    """Delete the database of a folder and fill a new one from its artifacts. Return the number of cells.

    Parameters
    ----------
    directory : Path
        The output folder of a run.

    Raises
    ------
    RunError
        If no grid was run in the folder, or one is running.
    DatabaseVersionError
        If a newer version of prmcal wrote the database. It stays then.
    StorageError
        If the database cannot be deleted.
    """
    folder = RunFolder(directory)
    record = folder.record()
    with folder.lock():
        folder.refuse_newer()
        plan = existing_plan(folder)
        store = Store(directory)
        failures = read_failures(directory)
        for database in (folder.database, folder.published):
            _remove(database)
            _remove(database.with_name(database.name + ".wal"))
        recorder = Recorder(folder, plan, store, record)
        recorder.begin(finished_shards(plan, store))
        recorder.note_failures(failures)
        recorder.end()
    return len(plan.cells)


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"{file} cannot be deleted ({error.strerror or error}). Remove it, and run the same command again."
        ) from error
