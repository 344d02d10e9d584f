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
_KIND = "llm, prm, calibrator, dataset, strategy or metric. Needed if a plugin of another kind has the same name."
_WEIGHTS = "A folder with the published weights of a PRM: verify that it reproduces the published rewards."


def check(
    name: Annotated[str, argument("NAME", "The name of a plugin, or a Python file that registers plugins.")],
    kind: Annotated[str | None, option("KIND", _KIND)] = None,
    argument: Annotated[
        list[str] | None, option("KEY=VALUE", "A constructor argument; repeatable.", "--argument", "-a")
    ] = None,
    weights: Annotated[Path | None, option("FOLDER", _WEIGHTS)] = None,
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

    The report names plugins that need further arguments. The values of arguments are YAML. Each plugin of a file gets
    the arguments that it has. A PRM with published weights is also compared with its published rewards.

    Returns the report, in lines of at most 80 columns, and whether all plugins were checked and no check failed.
    """
    if kind is not None:
        one_of("--kind", kind, list(KINDS))
    arguments_by_key = dict(map(_parsed, arguments)) | ({} if weights is None else {"checkpoint": str(weights)})
    plugins = _find(name, kind)
    accepted_keys = {key for kind, plugin in plugins for key in arguments_model(KINDS[kind].get(plugin)).model_fields}
    unknown_keys = [key for key in arguments_by_key if key not in accepted_keys]
    if len(plugins) > 1 and unknown_keys:
        hint = meant(unknown_keys[0], accepted_keys, f"They take: {', '.join(sorted(accepted_keys)) or 'none'}.")
        raise InvalidArgumentsError(f"No plugin of the file has an argument '{unknown_keys[0]}'. {hint}")
    states, reports = Counter[str](), []
    for names in plugins:
        state, report = _check_plugin(name, *names, arguments_by_key, len(plugins) > 1, weights)
        states[state] += 1
        reports.append(report)
    if len(plugins) > 1:
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        reports.append(f"{len(plugins)} plugins: {counts}")
    return "\n\n".join(reports), set(states) == {"passed"}


def _check_plugin(
    name: str, kind: str, plugin: str, arguments: Mapping[str, Any], several: bool, weights: Path | None
) -> tuple[str, str]:
    """Build a plugin and run its checks. Return its state and its report."""
    registry, title = KINDS[kind], f"{kind} {plugin}"
    fields = arguments_model(registry.get(plugin)).model_fields
    accepted = {key: value for key, value in arguments.items() if key in fields or not several}
    missing_keys = [key for key, field in fields.items() if field.is_required() and key not in accepted]
    if missing_keys and name.endswith(".py"):
        options = "".join(f" --argument {key}=..." for key in missing_keys)
        return "needs arguments", f"{title}: needs arguments. Run\n  prmcal check {name}{options}"
    try:
        built = check_build(lambda: registry.create(plugin, **accepted), registry.get(plugin))
    except InvalidArgumentsError as error:
        if accepted or not several:
            raise
        built = CheckResult("it can be built", passed=False, message=str(error))
    if isinstance(built, CheckResult):
        results = [built]
    else:
        checkpoint = (built if weights is None else type(built)).checkpoint
        results = [*run_checks(built), *compare_with_published(built, checkpoint)]
    passed = all(check_result.passed or check_result.skipped for check_result in results)
    return "passed" if passed else "failed", "\n".join(_lines(title, results, passed))


def _lines(title: str, results: Sequence[CheckResult], passed: bool) -> Iterator[str]:
    """Yield the lines of a report. Results with the same message share a paragraph."""
    counts = Counter(map(_label, results))
    yield f"{title}: " + ", ".join(f"{counts[label]} {label}" for label in _LABELS if counts[label])
    for label in _LABELS:
        by_message: dict[str, list[str]] = defaultdict(list)
        for check_result in results:
            is_listed = passed or label == "FAILED" or check_result.message == NOT_RUN
            if is_listed and _label(check_result) == label:
                by_message[check_result.message].append(check_result.name)
        for message, names in by_message.items():
            listed = f"{len(names)} other checks" if message == NOT_RUN else ", ".join(names)
            yield wrapped(f"  {label:7}  {listed}", _WIDTH, hanging=_INDENT)
            if message:
                yield wrapped(excerpt(message, _LONGEST_MESSAGE), _WIDTH, indent=_INDENT)


def _label(check_result: CheckResult) -> str:
    return "skipped" if check_result.skipped else "passed" if check_result.passed else "FAILED"


def _find(name: str, kind: str | None) -> list[tuple[str, str]]:
    """Return the kinds and names of the plugins to check."""
    registered = _registered(kind)
    if name.endswith(".py"):
        load_plugin_file(Path(name))
        if new := [pair for pair in _registered(kind) if pair not in registered]:
            return new
        raise PluginError(f"{name} registers no plugin. Put a decorator such as @calibrator('name') on a class.")
    matches = [pair for pair in registered if pair[1] == name]
    if len(matches) > 1:
        kinds = " and of a ".join(title for title, _ in matches)
        raise PluginError(f"'{name}' is the name of a {kinds}. Choose one of them with --kind.")
    if not matches:
        hint = meant(name, {plugin_name for _, plugin_name in registered}, "`prmcal list` shows all plugins.")
        raise UnknownPluginError(f"There is no {kind or 'plugin'} '{name}'. {hint}")
    return matches


def _registered(only_kind: str | None) -> list[tuple[str, str]]:
    return [(kind, name) for kind, registry in KINDS.items() if only_kind in (None, kind) for name in registry.names()]


def _parsed(argument: str) -> tuple[str, Any]:
    key, separator, value = argument.partition("=")
    if not separator or not key:
        raise InvalidArgumentsError(f"--argument takes KEY=VALUE, such as checkpoint=nano:prm. Got '{argument}'.")
    with reading(f"The value of --argument {key} is not valid YAML", kind=InvalidArgumentsError):
        return key, yaml.safe_load(value)
