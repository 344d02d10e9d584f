"""Migrating database files. The file itself is never changed in place, so a crash leaves it as it was."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from prmcal.db.connection import connect, engine_for, layout_in
from prmcal.db.migrations.steps import migrate
from prmcal.db.tables.base import SCHEMA_VERSION
from prmcal.errors import DatabaseStorageError

__all__ = ["migrate_file", "migrated_copy"]

_State = tuple[int, int, int]
_copies: dict[Path, tuple[_State, Path]] = {}


def migrate_file(path: Path, patience: float = 30.0) -> int:
    """Bring a database file to the current layout. Return the layout that it had.

    A copy beside the file is migrated and then takes its place in one step.

    Raises
    ------
    DatabaseError
        If the file cannot be read or replaced. It is unchanged then.
    """
    copy = path.with_name(f".{path.name}.migrating")
    with connect(engine_for(path), path, patience) as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        layout = layout_in(connection, path)
        if layout == SCHEMA_VERSION:
            return layout
        connection.exec_driver_sql("CHECKPOINT")  # The file is complete when it is closed.
    try:
        _migrate(path, copy)
        copy.replace(path)
    except OSError as error:
        raise DatabaseStorageError(
            f"{path} cannot be migrated: {error.strerror}. It is unchanged."
        ) from error
    finally:
        _remove(copy)
    return layout


def migrated_copy(path: Path, state: _State) -> Path:
    """Return a temporary copy of a database file in the current layout. The file and its folder stay as they are.

    The copy is kept until the process ends, and made again when the state of the file changes.

    Raises
    ------
    DatabaseError
        If the file cannot be read, or there is no space for the copy.
    """
    state_of_copy, copy = _copies.get(path, (None, None))
    if copy is None or state_of_copy != state:
        try:
            copy = copy or _temporary_folder() / path.name
            _migrate(path, copy)
        except OSError as error:
            raise DatabaseStorageError(
                f"{path} is of an earlier layout, and its temporary copy cannot be written: {error.strerror}. "
                "Set TMPDIR to a folder with more space."
            ) from error
        _copies[path] = (state, copy)
    return copy


def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="prmcal-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _migrate(path: Path, copy: Path) -> None:
    _remove(copy)  # What an earlier migration left when it was killed.
    shutil.copyfile(path, copy)
    with connect(engine_for(copy), path, patience=0.0) as connection, connection.begin():
        migrate(connection, layout_in(connection, path))


def _remove(copy: Path) -> None:
    for file in (copy, copy.with_name(f"{copy.name}.wal")):
        file.unlink(missing_ok=True)
