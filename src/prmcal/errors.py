"""Every error that prmcal raises on purpose. Each message says what was wrong, where, and what to do about it."""


class PrmcalError(Exception):
    """A problem that the user can act on. The message is the whole explanation. A command ends with exit code 2."""


class PluginError(PrmcalError):
    """A plugin cannot be found, loaded or built."""


class UnknownPluginError(PluginError):
    """No plugin of that kind has that name."""


class DuplicatePluginError(PluginError):
    """Two plugins of one kind claim the same name."""


class InvalidPluginError(PluginError):
    """A plugin does not fulfil its contract, or its file cannot be loaded."""


class InvalidArgumentsError(PluginError):
    """The constructor arguments of a plugin are wrong."""


class PluginFailedError(PrmcalError):
    """A plugin could not work. The message has the reason, such as a checkpoint of another kind or a server."""

    plugin = ""
    """Its kind and name, as in ``prm:nano-prm``. Empty until the failed call is known."""


class FaultyPluginError(PluginFailedError):
    """The code of a plugin is at fault: it raised by mistake, or returned something outside its contract."""


class ModelBrokenError(PluginFailedError):
    """The model of a plugin broke while it was loaded or used. Loaded again, it may work: the shard is tried again."""


class NoAnswerError(PluginFailedError):
    """The server behind a plugin did not answer, although requests were repeated for the plugin's `patience`."""


class DataError(PrmcalError):
    """A data set or an artifact cannot be read as it should be."""


class GridError(PrmcalError):
    """The grid file is wrong."""


class RunError(PrmcalError):
    """The output folder is locked by another run, or belongs to another grid."""


class StorageError(PrmcalError):
    """The disk is full or cannot be written."""


class ClusterError(PrmcalError):
    """A cluster cannot be reached, or its nodes cannot run the grid."""


class DatabaseError(PrmcalError):
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
