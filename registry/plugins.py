"""The registries of plugins, one for each kind, and the decorators that register plugins.

A name can come from a decorator, for instance in a file given with ``--plugin``, from ``builtin.toml``, or from an
entry point of an installed package (groups ``prmcal.llms``, ``prmcal.prms``, ``prmcal.calibrators``,
``prmcal.datasets``, ``prmcal.strategies``, ``prmcal.metrics``, ``prmcal.graders``). Built-in and installed plugins are
imported when they are first used. Nothing here imports torch.
"""

import hashlib
import importlib
import importlib.util
import inspect
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from prmcal.errors import (
    DuplicatePluginError,
    InvalidArgumentsError,
    InvalidPluginError,
    PrmcalError,
    UnknownPluginError,
)
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.grader import Grader
from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.contracts.strategy import Strategy
from prmcal.registry.messages import file_sha256, meant, message_of, user_cache
from prmcal.registry.sources import arguments_model, local_files, validate_arguments

# mypy: disable-error-code="type-abstract"
# The contracts are abstract classes, and the registries take the classes themselves.


P = TypeVar("P", bound=Plugin)

_BUILTIN: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("builtin.toml").read_text(encoding="utf-8")
)


@cache
def _entry_points(_: tuple[tuple[str, int], ...]) -> Any:
    """Return the entry points of all packages, which is slow. A package that is added changes the time of a folder."""
    return metadata.entry_points()


class Registry(Generic[P]):
    """The plugins of one kind, by their names.

    `kind` is the singular, as in error messages. Every plugin of the kind derives from the contract. The plural, for
    the group of entry points, is by default the kind with an s.
    """

    def __init__(self, kind: str, contract: type[P], plural: str = "") -> None:
        self.kind = kind
        self.contract = contract
        self.group = f"prmcal.{plural or f'{kind}s'}"
        self._builtin = {name: f"prmcal.registry.{target}" for name, target in _BUILTIN[kind].items()}
        self._registered: dict[str, type[P]] = {}
        # Cached, since a grid creates the same few classes hundreds of times.
        self._models: dict[type[P], type[BaseModel]] = {}

    def register(self, name: str) -> Callable[[type[P]], type[P]]:
        """Return a class decorator that registers a plugin under `name`.

        Raises a DuplicatePluginError if the name is taken. Raises an InvalidPluginError if the class does not derive
        from the contract or lacks one of its methods, or the decorator has no name.
        """
        if not isinstance(name, str) or not name:
            raise InvalidPluginError(
                f'The decorator needs a name. Write @{self.kind}("my-{self.kind}") above the class.'
            )

        def decorate(cls: type[P]) -> type[P]:
            self._check_contract(name, cls)
            holder = self.names().get(name)
            if holder is not None and holder != f"{cls.__module__}:{cls.__qualname__}":
                raise DuplicatePluginError(
                    f"The {self.kind} name '{name}' is already registered by {holder}. Choose another name."
                )
            self._registered[name] = cls
            return cls

        return decorate

    def forget(self, module: str) -> None:
        """Remove the plugins that a module registered."""
        self._registered = {name: cls for name, cls in self._registered.items() if cls.__module__ != module}

    def names(self) -> dict[str, str]:
        """Return ``module:Class`` of every plugin, sorted by name.

        Raises a DuplicatePluginError if an installed package has a name that is taken.
        """
        targets = dict(self._builtin)
        folders = tuple((folder, Path(folder).stat().st_mtime_ns) for folder in sys.path if Path(folder).exists())
        for point in _entry_points(folders).select(group=self.group):
            if targets.setdefault(point.name, point.value) != point.value:
                raise DuplicatePluginError(
                    f"The {self.kind} name '{point.name}' belongs to {targets[point.name]} and to {point.value} of the "
                    f"package {point.dist.name if point.dist else 'unknown'}. Uninstall one of them."
                )
        targets |= {name: f"{cls.__module__}:{cls.__qualname__}" for name, cls in self._registered.items()}
        return dict(sorted(targets.items()))

    def get(self, name: str) -> type[P]:
        """Return the class registered under `name`, and import it if necessary.

        Raises an UnknownPluginError if there is no such name. The message has the nearest names. Raises an
        InvalidPluginError if the module cannot be imported, or the class breaks the contract.
        """
        if name in self._registered:
            return self._registered[name]
        targets = self.names()
        if name not in targets:
            hint = meant(name, targets, f"Registered: {', '.join(targets) or 'none'}.")
            raise UnknownPluginError(
                f"There is no {self.kind} '{name}'. {hint} If it is in a file of yours, name the file: "
                "--plugin FILE, or `plugins: [FILE]` in the grid."
            )
        cls: type[P] = self._import(name, targets[name])
        self._check_contract(name, cls)
        self._registered[name] = cls
        return cls

    def create(self, plugin_name: str, /, **arguments: Any) -> P:
        """Build a plugin from data. The validated arguments are kept in its attribute `arguments`.

        Raises an UnknownPluginError or an InvalidPluginError as :meth:`get` does. Raises an InvalidArgumentsError if an
        argument is unknown, missing, of a wrong type or out of range, or if the plugin refuses the arguments.
        """
        cls = self.get(plugin_name)
        model = self._models.get(cls) or self._models.setdefault(cls, arguments_model(cls))
        validated = validate_arguments(model, f"{self.kind} '{plugin_name}'", arguments)
        try:
            plugin = cls(**validated)
            plugin.check_arguments()
        except (TypeError, ValueError) as error:
            raise InvalidArgumentsError(f"The {self.kind} '{plugin_name}': {error}") from error
        plugin.plugin_name = plugin_name
        plugin.arguments = validated
        return plugin

    def _import(self, name: str, target: str) -> Any:
        module, _, attribute = target.partition(":")
        try:
            value: Any = importlib.import_module(module)
            for attribute_name in attribute.split("."):
                value = getattr(value, attribute_name)
        except PrmcalError:
            raise
        except Exception as error:
            raise InvalidPluginError(
                f"The {self.kind} '{name}' cannot be loaded from {target}: {message_of(error)}. "
                "Check that its package and all dependencies are installed."
            ) from error
        return value

    def _check_contract(self, name: str, cls: Any) -> None:
        if not (inspect.isclass(cls) and issubclass(cls, self.contract)):
            registries = KINDS.values() if inspect.isclass(cls) else ()
            kind = next((registry.kind for registry in registries if issubclass(cls, registry.contract)), None)
            hint = f' Write @{kind}("{name}") above it.' if kind else ""
            raise InvalidPluginError(
                f"The {self.kind} '{name}' ({getattr(cls, '__qualname__', cls)!s}) must be a class that derives "
                f"from prmcal.{self.contract.__name__}.{hint}"
            )
        missing = sorted(getattr(cls, "__abstractmethods__", ()))
        if missing:
            signatures = {method: inspect.signature(getattr(cls, method)) for method in missing}
            forms = (f"def {method}({', '.join(signature.parameters)})" for method, signature in signatures.items())
            raise InvalidPluginError(
                f"The {self.kind} '{name}' ({cls.__qualname__}) lacks {', '.join(missing)}. Write "
                f"{' and '.join(forms)}. See prmcal.{self.contract.__name__} for the contract."
            )


llms = Registry("llm", LLM)
prms = Registry("prm", PRM)
calibrators = Registry("calibrator", Calibrator)
datasets = Registry("dataset", Dataset)
strategies = Registry("strategy", Strategy, "strategies")
metrics = Registry("metric", Metric)
graders = Registry("grader", Grader)

KINDS: dict[str, Registry[Any]] = {
    registry.kind: registry for registry in (llms, prms, calibrators, datasets, strategies, metrics, graders)
}

llm, prm, calibrator, dataset = llms.register, prms.register, calibrators.register, datasets.register
strategy, metric, grader = strategies.register, metrics.register, graders.register

_CONTENT = "__prmcal_content__"
"""The attribute of a plugin file's module with the hashes of the local files that it was loaded from."""


def load_plugin_file(path: Path, named: bool = True) -> None:
    """Execute a Python file, so that its decorators register plugins.

    The same file is executed only once. If the file or a local module that it imports was edited since, all are
    forgotten and executed again. A file from the record of a run that the user has not `named` is executed only if a
    user of this machine has named a file with the same content before.

    Raises an InvalidPluginError if the file does not exist, was never named, imports a local module that is not valid
    Python, or raises an error. Raises a DuplicatePluginError if it registers a name that is taken.
    """
    path = path.resolve()
    if not path.is_file():
        raise InvalidPluginError(
            f"There is no plugin file {path}. Name a .py file in --plugin, or under `plugins` in the grid."
        )
    module_name = f"prmcal_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    importlib.invalidate_caches()
    content = {file: file_sha256(file) for file in local_files(path).values()}
    digest = hashlib.sha256("".join(sorted(content.values())).encode()).hexdigest()
    if not named and digest not in _named_before():
        raise InvalidPluginError(
            f"The run needs the plugin file {path}, which nobody has named on this machine. Read it, since it is a "
            f"program. If you trust it, name it once: prmcal list --plugin {path}"
        )
    loaded = sys.modules.get(module_name)
    if loaded is not None:
        content_before: dict[Path, str] = vars(loaded)[_CONTENT]
        if content_before == content:
            return
        _forget(content_before)
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
    if named and digest not in _named_before():
        with suppress(OSError):  # Without a folder for it, the file must be named again.
            _named_files().parent.mkdir(parents=True, exist_ok=True)
            with _named_files().open("a", encoding="ascii") as file:
                file.write(f"{digest}\n")


def _named_files() -> Path:
    """Return the file with the hashes of the plugin files that were named on this machine."""
    return user_cache() / "named-plugin-files.txt"


def _named_before() -> set[str]:
    try:
        return set(_named_files().read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return set()


def _forget(files: Collection[Path]) -> None:
    """Forget the modules of some files, with their plugins and compiled files, so that they are imported again."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve() in files:
            for registry in KINDS.values():
                registry.forget(name)
            del sys.modules[name]
            with suppress(OSError):
                Path(importlib.util.cache_from_source(file)).unlink()


def plugin_entry(parameter: str, value: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a plugin that an argument of another plugin names.

    `parameter` is the name of that argument, for the error message. The value is the registered name, or ``{"plugin":
    name, "arguments": {...}}``. Raises a ValueError for other values.
    """
    entry: Mapping[str, Any] = {"plugin": value} if isinstance(value, str) else value
    name, arguments = entry.get("plugin"), entry.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict) or entry.keys() - {"plugin", "arguments"}:
        raise ValueError(
            f"The '{parameter}' parameter must be a name, or a mapping with the keys 'plugin' and 'arguments'. "
            f"Got {value!r} instead."
        )
    return name, arguments
