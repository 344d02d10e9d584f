"""Plugin files: Python files outside of any package, whose decorators register plugins."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from prmcal.errors import DuplicatePluginError, InvalidPluginError
from prmcal.registry.excerpts import message_of
from prmcal.registry.plugins import KINDS
from prmcal.registry.sources import local_files

__all__ = ["load_plugin_file"]

_CONTENT = "__prmcal_content__"
"""The name under which the module of a plugin file keeps the hashes of the local files that it was loaded from."""


def load_plugin_file(path: Path) -> None:
    """Execute a Python file, so that its decorators register plugins.

    The same file is executed only once. If it was edited since, its plugins are forgotten and it is executed again. If
    a local module that it imports was edited, the local modules are imported again too.

    Raises
    ------
    InvalidPluginError
        If the file does not exist, raises while it is loaded, or imports a local module that is not valid Python.
    DuplicatePluginError
        If it registers a name that is taken.
    """
    path = path.resolve()
    if not path.is_file():
        raise InvalidPluginError(f"There is no plugin file {path}. Set --plugin to the path of a .py file.")
    module_name = f"prmcal_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    importlib.invalidate_caches()
    content = {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in local_files(path).values()}
    loaded = sys.modules.get(module_name)
    if loaded is not None:
        before: dict[Path, str] = vars(loaded)[_CONTENT]
        if before == content:
            return
        _forget(module_name)
        if {**before, path: ""} != {**content, path: ""}:
            _forget_modules(set(before) - {path})
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InvalidPluginError(f"{path} is not a Python file. Set --plugin to the path of a .py file.")
    module = importlib.util.module_from_spec(spec)
    vars(module)[_CONTENT] = content
    sys.modules[module_name] = module
    try:
        # Not by the loader, whose cache of compiled files does not see an edit within the second of the one before.
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except (DuplicatePluginError, InvalidPluginError):
        del sys.modules[module_name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        raise InvalidPluginError(f"The plugin file {path} cannot be loaded: {message_of(error)}") from error


def _forget_modules(files: Collection[Path]) -> None:
    """Forget the modules of some files, with their plugins and compiled files, so that they are imported again."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve() in files:
            _forget(name)
            del sys.modules[name]
            with suppress(OSError):
                Path(importlib.util.cache_from_source(file)).unlink()


def _forget(module: str) -> None:
    for registry in KINDS.values():
        registry.forget(module)
