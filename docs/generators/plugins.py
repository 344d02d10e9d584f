"""What is supported: plugins with their sources and arguments, metrics, and the models of the shipped grids."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator

import yaml

from docs.generators.markdown import code, directive, summary, table
from prmcal.db.metrics import with_terminal
from prmcal.grids import shipped_grids
from prmcal.harness.planning.resolved import built_in_metrics
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.plugins import KINDS
from prmcal.registry.sources import parameters_of

_TITLES = {
    "llm": "LLMs",
    "prm": "PRMs",
    "calibrator": "Calibrators",
    "dataset": "Data sets",
    "strategy": "Strategies",
    "metric": "Metrics",
    "grader": "Graders",
}


def plugin_table(kind: str) -> str:
    """Return the table of the plugins of a kind."""
    rows = (
        [f"[{code(name)}](plugins.md#{_anchor(kind, name)})", summary(cls), _source(cls)]
        for name, cls in _plugins(kind)
    )
    return table(["name", "what it does", "source"], rows)


def arguments_tables() -> str:
    """Return a table for each kind, of the arguments of its plugins with their defaults."""
    return "\n".join(
        f"## {title}\n\n"
        + table(["name", "arguments"], ([code(name), ", ".join(_arguments(cls))] for name, cls in _plugins(kind)))
        for kind, title in _TITLES.items()
    )


def _arguments(cls: type[Plugin]) -> Iterator[str]:
    for parameter in parameters_of(cls):
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        yield code("..." if parameter.kind is parameter.VAR_KEYWORD else parameter.name + default)


def plugin_details() -> str:
    """Return a section for each plugin, with its arguments and notes from the docstring, for Sphinx."""
    sections: list[str] = []
    for kind, title in _TITLES.items():
        sections.append(f"## {title} in detail\n")
        for name, cls in _plugins(kind):
            sections.append(f"({_anchor(kind, name)})=\n### {code(name)}\n")
            fields = {name for base in cls.__mro__ for name in inspect.get_annotations(base)}
            arguments = ", ".join(parameter.name for parameter in parameters_of(cls) if parameter.name in fields)
            options = {"members": arguments} if arguments else {}
            sections.append(directive("autoclass", f"{cls.__module__}.{cls.__qualname__}", **options))
            if cls.citation:
                sections.append(f"Source: {_source(cls)}\n")
    return "\n".join(sections)


def metrics_table() -> str:
    """Return the table of all metrics. Those with terminal prefixes have the same meaning, so they are left out."""
    metrics = built_in_metrics()
    with_terminals = {with_terminal(metric.name) for metric in metrics}
    rows = (
        [metric.title, code(metric.name), metric.leaderboard, metric.better or "neither", metric.description]
        for metric in metrics
        if metric.name not in with_terminals
    )
    return table(["metric", "name", "leaderboard", "better", "meaning"], rows)


def models_table() -> str:
    """Return the table of the models in the shipped grids."""
    grids_of: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for grid, path in shipped_grids().items():
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for kind in ("llm", "prm"):
            for entry in content.get(f"{kind}s", ()):  # A grid with parts has recorded ones.
                checkpoint = entry.get("arguments", {}).get("checkpoint")
                if checkpoint:
                    grids_of[kind, checkpoint, entry["plugin"]].append(grid)
    rows = (
        [code(checkpoint), kind.upper(), code(plugin), ", ".join(map(code, dict.fromkeys(grids)))]
        for (kind, checkpoint, plugin), grids in sorted(grids_of.items())
    )
    return table(["checkpoint", "kind", "plugin", "grids"], rows)


def _plugins(kind: str) -> Iterator[tuple[str, type[Plugin]]]:
    """Yield the plugins of this package, by name."""
    registry = KINDS[kind]
    for name, target in registry.names().items():
        if target.startswith("prmcal."):
            yield name, registry.get(name)


def _anchor(kind: str, name: str) -> str:
    """Return the address of a plugin on the page of plugins. Plugins of two kinds may have the same name."""
    return f"{kind}-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


def _source(cls: type[Plugin]) -> str:
    return f"{cls.citation} ({cls.known_by})" if cls.known_by else cls.citation
