"""Every error that prmcal raises on purpose, outside the database.

    PrmcalError                      one clear message for the user, exit code 2
    ├── PluginError                  a plugin cannot be found, loaded or built
    │   ├── UnknownPluginError       no such name ("did you mean ...?")
    │   ├── DuplicatePluginError     the name is taken
    │   ├── InvalidPluginError       it does not fulfil its contract, or its file does not load
    │   └── InvalidArgumentsError    its constructor arguments are wrong
    ├── PluginFailedError            a plugin raised, or returned NaN, a wrong shape, a score above 1
    ├── DataError                    a data set or an artifact cannot be read as it should be
    ├── GridError                    the grid file is wrong
    ├── RunError                     the output folder is locked, or belongs to another grid
    └── StorageError                 the disk is full or not writable

Errors say what was wrong, where, and what to do about it.
"""

from __future__ import annotations

__all__ = [
    "DataError",
    "DuplicatePluginError",
    "GridError",
    "InvalidArgumentsError",
    "InvalidPluginError",
    "PluginError",
    "PluginFailedError",
    "PrmcalError",
    "RunError",
    "StorageError",
    "UnknownPluginError",
]


class PrmcalError(Exception):
    """A problem that the user can act on. The message is the whole explanation."""


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
    """A plugin raised while it worked, or returned something outside its contract."""


class DataError(PrmcalError):
    """A data set or an artifact cannot be read as it should be."""


class GridError(PrmcalError):
    """The grid file is wrong."""


class RunError(PrmcalError):
    """The output folder is locked by another run, or belongs to another grid."""


class StorageError(PrmcalError):
    """The disk is full or cannot be written."""
