"""What every plugin has in common: a name, its arguments as data, and an identity for job keys."""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["Plugin"]


class Plugin:
    """Base of LLM, PRM, Calibrator, Dataset and Strategy.

    Constructor arguments are plain data (what YAML can hold). ``__init__`` only stores them under their own
    names; whatever is derived from them is computed when it is needed, so that building a plugin is free.

    Attributes
    ----------
    version : str
        Part of every job key. Raise it when the plugin's output changes for the same arguments.
    packages : tuple of str
        Packages that it imports and that prmcal itself does without; `prmcal doctor` looks for them.
    plugin_name : str
        The registered name; set when the registry builds the plugin.
    arguments : dict
        The validated constructor arguments; set when the registry builds the plugin.
    """

    version: ClassVar[str] = "1"
    packages: ClassVar[tuple[str, ...]] = ()
    plugin_name: str = ""
    arguments: dict[str, Any] = {}  # noqa: RUF012 - replaced as a whole by the registry, never changed

    def check_arguments(self) -> None:
        """Raise ValueError if an argument is outside its range. Called once, after construction."""

    def identity(self) -> dict[str, Any]:
        """All that decides this plugin's output, as JSON data; the job keys are made from it.

        Plugins from outside are known by the hash of their source file too, so that an edited plugin is
        a new one.
        """
        cls = type(self)
        known: dict[str, Any] = {
            "plugin": self.plugin_name or cls.__qualname__,
            "version": self.version,
            "arguments": self.arguments,
        }
        if not cls.__module__.startswith("prmcal."):
            known["source"] = _source_hash(inspect.getfile(cls))
        return known


@cache
def _source_hash(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
