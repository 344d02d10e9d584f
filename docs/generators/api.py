"""The reference of what ``import prmcal`` offers."""

from __future__ import annotations

import inspect
from types import ModuleType

import prmcal
from docs.generators.markdown import code, directive, summary, table
from prmcal import calibrators, metrics, rules
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.plugins import metrics as registered

_RUNS, _USE = "Runs and results", "A calibrated PRM in use"
_CONTRACTS, _VALUES = "Contracts of plugins", "What passes between plugins"


def api_table() -> str:
    """Return a table for each group of names. The decorators are described on the page itself."""
    sections = []
    for title, names in _groups().items():
        rows = ([code(name), summary(getattr(prmcal, name))] for name in names)
        sections.append(f"## {title}\n\n{table(['name', 'what it is'], rows)}")
    return "\n".join([*sections, *map(_library_table, (calibrators, metrics, rules))])


def _library_table(module: ModuleType) -> str:
    """Return what a module for arrays says of itself, and a table of its names."""
    rows = []
    for name, value in vars(module).items():
        if isinstance(value, metrics.ScoreMetric):
            rows.append([code(name), registered.create(value.name).described()])
        elif name in getattr(module, "__all__", ()) or _is_defined_in(module, name, value):
            rows.append([code(name), summary(value)])
    return f"## {module.__name__}\n\n{summary(module)}\n\n{table(['name', 'what it is'], rows)}"


def _is_defined_in(module: ModuleType, name: str, value: object) -> bool:
    is_public = not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
    return is_public and getattr(value, "__module__", "") == module.__name__


def api_details() -> str:
    """Return all docstrings, for Sphinx."""
    return "\n".join("\n".join([f"## {title} in detail\n", *map(_entry, names)]) for title, names in _groups().items())


def _groups() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {_RUNS: [], _USE: [], _CONTRACTS: [], _VALUES: []}
    for name in prmcal.__all__:
        value = getattr(prmcal, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            groups[_group(value)].append(name)
    return {title: names for title, names in groups.items() if names}


def _group(value: object) -> str:
    if inspect.isclass(value) and issubclass(value, Plugin):
        return _CONTRACTS
    module = getattr(value, "__module__", "")
    if module.startswith("prmcal.harness.inference."):
        return _USE
    return _VALUES if module.startswith("prmcal.registry.") else _RUNS


def _entry(name: str) -> str:
    kind = "class" if inspect.isclass(getattr(prmcal, name)) else "function"
    return directive(f"auto{kind}", f"prmcal.{name}", **({"members": ""} if kind == "class" else {}))
