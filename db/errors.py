"""Every error that the database raises on purpose.

DatabaseError                    one clear message for the user
├── MissingDatabaseError         there is no database file yet
├── DamagedDatabaseError         the file is not a database of prmcal, or is broken
├── DatabaseVersionError         it was written by another version of prmcal or DuckDB
├── LockedDatabaseError          another program keeps the file open
├── DatabaseStorageError         the disk is full or not writable
├── LoadError                    a Parquet file does not fit its table
├── ArtifactError                an artifact beside the database is absent or unreadable
├── IncomparableCellsError       two cells that were not measured alike
└── UnknownCellError             no such cell ("did you mean ...?")
"""

from __future__ import annotations

__all__ = [
    "ArtifactError",
    "DamagedDatabaseError",
    "DatabaseError",
    "DatabaseStorageError",
    "DatabaseVersionError",
    "IncomparableCellsError",
    "LoadError",
    "LockedDatabaseError",
    "MissingDatabaseError",
    "UnknownCellError",
]


class DatabaseError(Exception):
    """A problem with the database that the user can act on. The message is the whole explanation."""


class MissingDatabaseError(DatabaseError):
    """There is no database file yet."""


class DamagedDatabaseError(DatabaseError):
    """The file is not a database of prmcal, or it is broken."""


class DatabaseVersionError(DatabaseError):
    """The file was written by another version of prmcal or of DuckDB."""


class LockedDatabaseError(DatabaseError):
    """Another program keeps the file open."""


class DatabaseStorageError(DatabaseError):
    """The disk is full or cannot be written."""


class LoadError(DatabaseError):
    """A Parquet file does not fit the table it was meant for."""


class ArtifactError(DatabaseError):
    """A file of a run that the database leaves to it is absent or unreadable."""


class IncomparableCellsError(DatabaseError):
    """Two cells that were not measured by the same things on the same questions."""


class UnknownCellError(DatabaseError):
    """No cell of the leaderboard has that identifier."""
