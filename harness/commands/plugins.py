"""``prmcal list`` and ``prmcal check``: which plugins there are, and whether one keeps its contract."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from prmcal.errors import InvalidArgumentsError, PluginError, UnknownPluginError
from prmcal.harness.commands.render import text_table
from prmcal.registry.plugins import KINDS, load_plugin_file

if TYPE_CHECKING:
    from prmcal.registry.conformance import CheckResult

__all__ = ["check_plugins", "plugin_listing"]


def plugin_listing(kind: str | None) -> str:
    """All registered plugins, or those of one kind, with the class behind each."""
    _check_kind(kind)
    rows = [
        [each, name, target]
        for each, registry in KINDS.items()
        if kind in (None, each)
        for name, target in registry.names().items()
    ]
    return text_table(["kind", "name", "class"], rows)


def check_plugins(
    name: str, kind: str | None, arguments: Sequence[str], weights: Path | None = None
) -> tuple[str, bool]:
    """Run the conformance checks, and of a PRM with published weights also the rewards that its authors publish.

    Parameters
    ----------
    name : str
        A registered name, or the path of a Python file: then every plugin that it registers is checked.
    kind : str or None
        Needed where plugins of several kinds share the name.
    arguments : sequence of str
        Constructor arguments as ``key=value``, the value as YAML.
    weights : Path, optional
        A folder that holds the weights of the plugin's own checkpoint.

    Returns
    -------
    str, bool
        The report, and whether every check passed.
    """
    from prmcal.registry.conformance import compare_with_published, run_checks

    _check_kind(kind)
    given = _parse(arguments) | ({} if weights is None else {"checkpoint": str(weights)})
    lines, passed = [], True
    for found_kind, found in _find(name, kind):
        lines.append(f"{found_kind} {found}")
        plugin = KINDS[found_kind].create(found, **given)
        checkpoint = getattr(plugin if weights is None else type(plugin), "checkpoint", "")
        results = [*run_checks(plugin), *compare_with_published(plugin, checkpoint)]
        lines += _lines(results)
        passed = passed and all(result.passed or result.skipped for result in results)
    return "\n".join(lines), passed


def _lines(results: Sequence[CheckResult]) -> Iterator[str]:
    """A line for each check. What made several fail, such as weights that are not there, is told once."""
    told: dict[str, str] = {}
    for result in results:
        mark = "skipped" if result.skipped else "passed" if result.passed else "FAILED"
        first = told.setdefault(result.message, result.name)
        message = result.message if first == result.name else f"as above, '{first}'"
        yield f"  {mark}  {result.name}" + (f": {message}" if result.message else "")


def _find(name: str, kind: str | None) -> list[tuple[str, str]]:
    if name.endswith(".py"):
        before = {(each, known) for each, registry in KINDS.items() for known in registry.names()}
        load_plugin_file(Path(name))
        found = [(each, known) for each, registry in KINDS.items() for known in registry.names()]
        new = [pair for pair in found if pair not in before and kind in (None, pair[0])]
        if not new:
            raise PluginError(
                f"{name} registers no plugin. Put a decorator such as @calibrator('name') on a class."
            )
        return new
    searched = {each: registry.names() for each, registry in KINDS.items() if kind in (None, each)}
    kinds = [each for each, names in searched.items() if name in names]
    if len(kinds) > 1:
        raise PluginError(f"'{name}' is the name of a {' and of a '.join(kinds)}. Say which with --kind.")
    if not kinds:
        known = sorted({known for names in searched.values() for known in names})
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else "See what there is: prmcal list"
        raise UnknownPluginError(f"There is no {kind or 'plugin'} '{name}'. {hint}")
    return [(kinds[0], name)]


def _parse(arguments: Sequence[str]) -> dict[str, Any]:
    given = {}
    for argument in arguments:
        key, separator, value = argument.partition("=")
        if not separator or not key:
            raise InvalidArgumentsError(
                f"--argument takes KEY=VALUE, such as checkpoint=nano:prm. Got '{argument}'."
            )
        given[key] = yaml.safe_load(value)
    return given


def _check_kind(kind: str | None) -> None:
    if kind is not None and kind not in KINDS:
        raise PluginError(f"There is no kind of plugin '{kind}'. The kinds are {', '.join(KINDS)}.")
