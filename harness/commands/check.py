"""``prmcal check``: the conformance checks, run on one plugin or on all plugins of a file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from prmcal.errors import InvalidArgumentsError, PluginError, UnknownPluginError
from prmcal.harness.commands.output import one_of
from prmcal.registry.conformance import CheckResult, compare_with_published, run_checks
from prmcal.registry.plugins import KINDS, load_plugin_file

__all__ = ["check_plugins"]


def check_plugins(
    name: str, kind: str | None, arguments: Sequence[str], weights: Path | None = None
) -> tuple[str, bool]:
    """Run the conformance checks. A PRM with published weights is also compared with its published rewards.

    Parameters
    ----------
    name : str
        A registered name, or the path of a Python file. All plugins that the file registers are checked.
    kind : str or None
        Needed if plugins of several kinds have the name.
    arguments : sequence of str
        Constructor arguments as ``key=value``, where the value is YAML.
    weights : Path, optional
        A folder with the published weights of the PRM's checkpoint.

    Returns
    -------
    report : str
    passed : bool
        Whether no check failed.

    Raises
    ------
    PrmcalError
        If the kind or the name is unknown, the name is ambiguous, or an argument is wrong.
    """
    if kind is not None:
        one_of("--kind", kind, list(KINDS))
    given = _parse(arguments) | ({} if weights is None else {"checkpoint": str(weights)})
    lines, passed = [], True
    for found_kind, found in _find(name, kind):
        lines.append(f"{found_kind} {found}")
        plugin = KINDS[found_kind].create(found, **given)
        checkpoint = (plugin if weights is None else type(plugin)).checkpoint
        results = [*run_checks(plugin), *compare_with_published(plugin, checkpoint)]
        lines += _lines(results)
        passed = passed and all(result.passed or result.skipped for result in results)
    return "\n".join(lines), passed


def _lines(results: Sequence[CheckResult]) -> Iterator[str]:
    """Yield a line for each check. If several have the same message, only the first line shows it."""
    shown: dict[str, str] = {}
    for result in results:
        mark = "skipped" if result.skipped else "passed" if result.passed else "FAILED"
        first = shown.setdefault(result.message, result.name)
        message = result.message if first == result.name else f"as above, '{first}'"
        yield f"  {mark}  {result.name}" + (f": {message}" if result.message else "")


def _find(name: str, kind: str | None) -> list[tuple[str, str]]:
    """Return the kinds and names of the plugins to check."""
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
        raise PluginError(
            f"'{name}' is the name of a {' and of a '.join(kinds)}. Choose one of them with --kind."
        )
    if not kinds:
        known = sorted({known for names in searched.values() for known in names})
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else "`prmcal list` shows all plugins."
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
