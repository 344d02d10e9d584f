"""The reference of what ``import prmcal`` offers."""

from __future__ import annotations

import inspect

import prmcal
from docs.generators.markdown import code, directive, summary, table
from prmcal.registry.contracts.plugin import Plugin

_RUNS, _USE = "Runs and results", "A calibrated PRM in use"
_CONTRACTS, _VALUES = "Contracts of plugins", "What passes between plugins"


def api_table() -> str:
    """Return a table for each group of names. The decorators are described on the page itself."""
    sections = []
    for title, names in _groups().items():
        rows = ([code(name), summary(getattr(prmcal, name))] for name in names)
        sections.append(f"## {title}\n\n{table(['name', 'what it is'], rows)}")
    return "\n".join(sections)


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
