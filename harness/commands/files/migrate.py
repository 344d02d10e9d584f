"""``prmcal migrate``: bring the database of a folder or of a server to the current layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from prmcal.db.migrations.files import migrate_file
from prmcal.db.postgresql.connection import reading_any_layout
from prmcal.db.postgresql.shared import writing
from prmcal.db.tables.base import SCHEMA_VERSION
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.place import Place

__all__ = ["migrate"]


def migrate(place: Place, tell: Callable[[str], None]) -> None:
    """Bring a database to the current layout, and tell what was done.

    Parameters
    ----------
    place : Path or URL
        The output folder of a run, or the address of a database in a server.
    tell : callable
        Called with each line for the user.

    Raises
    ------
    RunError
        If the folder has no database, or a run writes to it.
    DatabaseError
        If the database is damaged, or too old or too new. It is unchanged then.
    """
    layout = _of_server(place, tell) if isinstance(place, sa.URL) else _of_folder(place)
    if layout == SCHEMA_VERSION:
        tell(f"{place} has the current layout ({layout}) already.")
    else:
        tell(f"Migrated {place} from layout {layout} to {SCHEMA_VERSION}.")


def _of_folder(directory: Path) -> int:
    folder = RunFolder(directory)
    folder.results()
    with folder.lock():
        return min(migrate_file(path) for path in (folder.database, folder.published) if path.exists())


def _of_server(url: sa.URL, tell: Callable[[str], None]) -> int:
    with reading_any_layout(url) as (_, layout):
        pass
    with writing(url, tell):
        return layout
