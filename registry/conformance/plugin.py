"""The checks for every plugin, and explanations of what a plugin raises in a check."""

import inspect
import json
import linecache
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.messages import excerpt, message_of
from prmcal.registry.sources import arguments_model, validate_arguments

_LONGEST_LINE = 100
_LONGEST_MESSAGE = 1000
_RESERVED = ("version", "citation", "packages", "plugin_name", "arguments")


Check = Callable[[Any], None]


def place_in(cls: type, error: BaseException) -> str:
    """Return where in its file a class raised, as "line 7 of mine.py, `return x[0]`"; empty if it did not.

    It is empty for the classes of prmcal, too.
    """
    try:
        path = Path(inspect.getfile(cls))
    except (OSError, TypeError):  # A class of an interactive session has no file.
        return ""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename) == path]
    if not frames or cls.__module__.startswith("prmcal."):
        return ""
    line = (frames[-1].line or linecache.getline(frames[-1].filename, frames[-1].lineno or 0)).strip()
    code = f", `{line}`" if line and len(line) <= _LONGEST_LINE else ""
    return f"line {frames[-1].lineno} of {Path(frames[-1].filename).name}{code}"


def explained(cls: type[Plugin], error: BaseException) -> str:
    """Return what a plugin of a class that was checked raised, and where."""
    place = place_in(cls, error)
    said = str(error) if isinstance(error, PluginFailedError) else f"it raised {message_of(error)}"
    said = excerpt(said[:1].upper() + said[1:], _LONGEST_MESSAGE)
    return f"{said.rstrip('.')}.{f' See {place}.' if place else ''}"


@cache
def _mistakes() -> dict[str, str]:
    """The messages of mistakes.yaml by their names."""
    import yaml

    kinds = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8"))
    return {name: text for texts in kinds.values() for name, text in texts.items()}


class _Filler(Formatter):
    """Fills in messages. ``{value!t}`` is the name of the type of a value, and ``{value!n}`` is its length."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion == "n":
            return len(value)
        return type(value).__name__ if conversion == "t" else super().convert_field(value, conversion)


def failed(mistake: str, /, **found: Any) -> AssertionError:
    """Return the error for a mistake of mistakes.yaml. `found` fills in what stands in braces there."""
    return AssertionError(_Filler().vformat(_mistakes()[mistake], (), found))


def expect(condition: object, mistake: str, /, **found: Any) -> None:
    """Fail the check with a mistake of mistakes.yaml unless the condition holds; see :func:`failed`."""
    if not condition:
        raise failed(mistake, **found)


def further_checks(names: dict[str, Any], declarations: tuple[Check, ...] = ()) -> tuple[Check, ...]:
    """Return the checks among the names of a module that are no declarations, in the order of their definitions."""
    return tuple(each for name, each in names.items() if name.startswith("check_") and each not in declarations)


def expect_array(what: str, values: Any, dtype: type[np.generic]) -> None:
    """Fail the check unless `values` is an array of numpy of this type."""
    found = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
    expect(
        isinstance(values, np.ndarray) and bool(np.issubdtype(values.dtype, dtype)),
        "must be an array",
        what=what,
        dtype="float64" if dtype is np.floating else np.dtype(dtype).name,
        found=found,
    )


def check_arguments_are_annotated(plugin: Plugin) -> None:
    """Prmcal validates every constructor argument by its annotation."""
    for parameter in _parameters(plugin):
        named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        expect(named, "__init__ must name its", parameter=parameter)
        annotated = parameter.annotation is not parameter.empty
        expect(annotated, "the argument of __init__", parameter=parameter)


def check_defaults_are_valid(plugin: Plugin) -> None:
    """Every default fits its annotation, and instances do not share it."""
    parameters = _parameters(plugin)
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    for name, default in defaults.items():
        expect(not isinstance(default, (list, dict, set)), "the default of must", name=name, default=default)
    needed = {each.name for each in parameters if each.default is each.empty}
    if needed <= plugin.arguments.keys():
        given = defaults | {name: plugin.arguments[name] for name in needed}
        try:
            validate_arguments(arguments_model(type(plugin)), "plugin", given)
        except InvalidArgumentsError as error:
            raise failed("a default does not", error=error) from error


def check_arguments_are_stored(plugin: Plugin) -> None:
    """``__init__`` only stores its arguments, under their own names."""
    for parameter in _parameters(plugin):
        name = parameter.name
        free = name not in _RESERVED and not callable(getattr(type(plugin), name, None))
        expect(free, "the argument of __init__ has", name=name)
        expect(hasattr(plugin, name), "__init__ does not store", name=name)
        stored, given = getattr(plugin, name), plugin.arguments.get(name)
        if given is not None:  # For None a plugin may take its own value.
            expect(_same(stored, given), "__init__ must store its", name=name, given=given, stored=stored)


def check_methods_take_the_arguments_of_the_contract(plugin: Plugin) -> None:
    """Every method can be called as the contract says, and returns its result as a whole."""
    for contract in type(plugin).__mro__:
        if not contract.__module__.startswith("prmcal."):
            continue
        for name, method in vars(contract).items():
            if name.startswith("_") or not inspect.isfunction(method):
                continue
            own = getattr(plugin, name)
            if getattr(own, "__func__", None) is not method:
                _require_signature(plugin, name, own, method)


def _require_signature(plugin: Plugin, name: str, own: Any, method: Any) -> None:
    """Fail unless `own` takes what `method` of the contract takes."""
    expected = list(inspect.signature(method).parameters.values())[1:]
    words = ", ".join(["self", *(str(each.replace(annotation=each.empty)) for each in expected)])
    extra = {"questions": None} if name == "fit" and getattr(plugin, "grouped", False) else {}
    words += "".join(f", {each}" for each in extra)
    expect(callable(own), "must be a method", name=name, own=own, words=words)
    whole = not inspect.isgeneratorfunction(own) and not inspect.iscoroutinefunction(own)
    expect(whole, "must return its result", name=name)
    signature = inspect.signature(own)
    required = [each for each in expected if each.default is each.empty]
    for given in (expected, required):
        try:
            signature.bind(*given, **extra)
        except TypeError as error:
            raise failed("is called with the", name=name, signature=signature, error=error, words=words) from error


def check_identity_is_json_data(plugin: Plugin) -> None:
    """The identity is JSON data and always the same, since job keys depend on it."""
    identity = plugin.identity()
    try:
        text = json.dumps(identity, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise failed("identity() must be json", error=error, identity=identity) from error
    again = json.dumps(plugin.identity(), sort_keys=True)
    expect(text == again, "identity() must not change", text=text, again=again)


def _same(stored: Any, given: Any) -> bool:
    """Return whether an argument was stored as it is. A tuple may replace a list."""
    if isinstance(stored, (list, tuple)) and isinstance(given, (list, tuple)):
        return list(stored) == list(given)
    equal = stored == given
    return isinstance(equal, bool) and equal


def _parameters(plugin: Plugin) -> list[inspect.Parameter]:
    return list(inspect.signature(type(plugin)).parameters.values())


DECLARATIONS = (
    check_arguments_are_annotated,
    check_defaults_are_valid,
    check_arguments_are_stored,
    check_methods_take_the_arguments_of_the_contract,
)
"""The checks of what the class declares. If one of them fails, the others would fail for a reason that misleads."""

CHECKS = further_checks(globals(), DECLARATIONS)
