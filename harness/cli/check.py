"""``prmcal check``: the checks of a plugin."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from prmcal.errors import InvalidArgumentsError, PluginError, UnknownPluginError
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.options import PluginOption, argument, load_plugins, one_of, option
from prmcal.harness.terminal import wrapped
from prmcal.registry.conformance import NOT_RUN, CheckResult, check_build, compare_with_published, run_checks
from prmcal.registry.messages import excerpt, meant, reading
from prmcal.registry.plugins import KINDS, load_plugin_file
from prmcal.registry.sources import arguments_model

_WIDTH = 80
_LONGEST_MESSAGE = 2000
_INDENT = " " * 11
_LABELS = ("FAILED", "skipped", "passed")


def check(
    name: Annotated[str, argument("NAME", "The name of a plugin, or a Python file that registers plugins.")],
    kind: Annotated[
        str | None,
        option(
            "KIND",
            "llm, prm, calibrator, dataset, strategy or metric. Needed if plugins of several kinds have the name.",
        ),
    ] = None,
    argument: Annotated[
        list[str] | None, option("KEY=VALUE", "A constructor argument; repeatable.", "--argument", "-a")
    ] = None,
    weights: Annotated[
        Path | None,
        option(
            "FOLDER", "A folder with the published weights of a PRM: verify that it reproduces the published rewards."
        ),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Run the conformance checks on a plugin."""
    load_plugins(plugin)
    report, passed = check_plugins(name, kind, argument or [], weights)
    typer.echo(report)
    if not passed:
        raise typer.Exit(ExitCode.FAILED_CHECKS)


def check_plugins(
    name: str, kind: str | None, arguments: Sequence[str], weights: Path | None = None
) -> tuple[str, bool]:
    """Run the conformance checks on a plugin, or on all plugins that a Python file registers.

    One that needs arguments which are not given is named in the report. The values of arguments are YAML, and each
    plugin of a file gets those that it takes. A PRM with published weights is also compared with its published rewards.

    Returns the report, in lines of at most 80 columns, and whether all plugins were checked and no check failed.
    """
    if kind is not None:
        one_of("--kind", kind, list(KINDS))
    given = dict(map(_parsed, arguments)) | ({} if weights is None else {"checkpoint": str(weights)})
    plugins = _find(name, kind)
    known = {key for kind, each in plugins for key in arguments_model(KINDS[kind].get(each)).model_fields}
    unknown = [key for key in given if key not in known]
    if len(plugins) > 1 and unknown:
        hint = meant(unknown[0], known, f"They take: {', '.join(sorted(known)) or 'none'}.")
        raise InvalidArgumentsError(f"No plugin of the file has an argument '{unknown[0]}'. {hint}")
    checked = [_checked(name, *each, given, len(plugins) > 1, weights) for each in plugins]
    states = Counter(state for state, _ in checked)
    parts = [report for _, report in checked]
    if len(checked) > 1:
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        parts.append(f"{len(checked)} plugins: {counts}")
    return "\n\n".join(parts), set(states) == {"passed"}


def _checked(
    name: str, kind: str, plugin: str, given: Mapping[str, Any], several: bool, weights: Path | None
) -> tuple[str, str]:
    """Build a plugin and run its checks. Return its state and its report."""
    registry, title = KINDS[kind], f"{kind} {plugin}"
    fields = arguments_model(registry.get(plugin)).model_fields
    own = {key: value for key, value in given.items() if key in fields or not several}
    needed = [key for key, field in fields.items() if field.is_required() and key not in own]
    if needed and name.endswith(".py"):
        options = "".join(f" --argument {key}=..." for key in needed)
        return "needs arguments", f"{title}: needs arguments. Run\n  prmcal check {name}{options}"
    try:
        built = check_build(lambda: registry.create(plugin, **own), registry.get(plugin))
    except InvalidArgumentsError as error:
        if own or not several:
            raise
        built = CheckResult("it can be built", passed=False, message=str(error))
    if isinstance(built, CheckResult):
        results = [built]
    else:
        checkpoint = (built if weights is None else type(built)).checkpoint
        results = [*run_checks(built), *compare_with_published(built, checkpoint)]
    passed = all(each.passed or each.skipped for each in results)
    return "passed" if passed else "failed", "\n".join(_lines(title, results, passed))


def _lines(title: str, results: Sequence[CheckResult], passed: bool) -> Iterator[str]:
    """Yield the lines of a report. Results with the same message share a paragraph."""
    counts = Counter(map(_label, results))
    yield f"{title}: " + ", ".join(f"{counts[label]} {label}" for label in _LABELS if counts[label])
    for label in _LABELS:
        shown = [each for each in results if _label(each) == label]
        if not passed and label != "FAILED":
            shown = [each for each in shown if each.message == NOT_RUN]
        by_message: dict[str, list[str]] = defaultdict(list)
        for each in shown:
            by_message[each.message].append(each.name)
        for message, names in by_message.items():
            listed = f"{len(names)} other checks" if message == NOT_RUN else ", ".join(names)
            yield wrapped(f"  {label:7}  {listed}", _WIDTH, hanging=_INDENT)
            if message:
                yield wrapped(excerpt(message, _LONGEST_MESSAGE), _WIDTH, indent=_INDENT)


def _label(result: CheckResult) -> str:
    return "skipped" if result.skipped else "passed" if result.passed else "FAILED"


def _find(name: str, kind: str | None) -> list[tuple[str, str]]:
    """Return the kinds and names of the plugins to check."""
    known = _registered(kind)
    if name.endswith(".py"):
        load_plugin_file(Path(name))
        new = [pair for pair in _registered(kind) if pair not in known]
        if not new:
            raise PluginError(f"{name} registers no plugin. Put a decorator such as @calibrator('name') on a class.")
        return new
    found = [pair for pair in known if pair[1] == name]
    if len(found) > 1:
        kinds = " and of a ".join(each for each, _ in found)
        raise PluginError(f"'{name}' is the name of a {kinds}. Choose one of them with --kind.")
    if not found:
        hint = meant(name, {each for _, each in known}, "`prmcal list` shows all plugins.")
        raise UnknownPluginError(f"There is no {kind or 'plugin'} '{name}'. {hint}")
    return found


def _registered(kind: str | None) -> list[tuple[str, str]]:
    return [(each, name) for each, registry in KINDS.items() if kind in (None, each) for name in registry.names()]


def _parsed(argument: str) -> tuple[str, Any]:
    key, separator, value = argument.partition("=")
    if not separator or not key:
        raise InvalidArgumentsError(f"--argument takes KEY=VALUE, such as checkpoint=nano:prm. Got '{argument}'.")
    with reading(f"The value of --argument {key} is not valid YAML", kind=InvalidArgumentsError):
        return key, yaml.safe_load(value)
