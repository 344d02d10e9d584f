"""The checks for every plugin, and explanations of the errors that a plugin raises in a check."""

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
    """Return the line of a class that raised an error, as "line 7 of mine.py, `return x[0]`"; empty if none did.

    It is empty for the classes of prmcal, too.
    """
    try:
        path = Path(inspect.getfile(cls))
    except (OSError, TypeError):  # A class of an interactive session has no file.
        return ""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    if not frames or cls.__module__.startswith("prmcal."):
        return ""
    line = (frames[-1].line or linecache.getline(frames[-1].filename, frames[-1].lineno or 0)).strip()
    code = f", `{line}`" if line and len(line) <= _LONGEST_LINE else ""
    return f"line {frames[-1].lineno} of {Path(frames[-1].filename).name}{code}"


def explained(cls: type[Plugin], error: BaseException) -> str:
    """Return a sentence on the error that a plugin raised in a check, and where."""
    place = place_in(cls, error)
    explanation = str(error) if isinstance(error, PluginFailedError) else f"it raised {message_of(error)}"
    explanation = excerpt(explanation[:1].upper() + explanation[1:], _LONGEST_MESSAGE)
    return f"{explanation.rstrip('.')}.{f' See {place}.' if place else ''}"


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


def failed(mistake: str, /, **values: Any) -> AssertionError:
    """Return the error for a mistake of mistakes.yaml. `values` fill in its braces."""
    return AssertionError(_Filler().vformat(_mistakes()[mistake], (), values))


def expect(condition: object, mistake: str, /, **values: Any) -> None:
    """Fail the check with a mistake of mistakes.yaml unless the condition holds; see :func:`failed`."""
    if not condition:
        raise failed(mistake, **values)


def further_checks(names: dict[str, Any], declarations: tuple[Check, ...] = ()) -> tuple[Check, ...]:
    """Return the checks among the names of a module that are no declarations, in the order of their definitions."""
    return tuple(check for name, check in names.items() if name.startswith("check_") and check not in declarations)


def expect_array(what: str, values: Any, dtype: type[np.generic]) -> None:
    """Fail the check unless `values` is an array of numpy of this type."""
    actual = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
    expect(
        isinstance(values, np.ndarray) and bool(np.issubdtype(values.dtype, dtype)),
        "must be an array",
        what=what,
        dtype="float64" if dtype is np.floating else np.dtype(dtype).name,
        actual=actual,
    )


def check_arguments_are_annotated(plugin: Plugin) -> None:
    """Prmcal validates every constructor argument by its annotation."""
    for parameter in _parameters(plugin):
        is_named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        expect(is_named, "__init__ must name its", parameter=parameter)
        annotated = parameter.annotation is not parameter.empty
        expect(annotated, "the argument of __init__", parameter=parameter)


def check_defaults_are_valid(plugin: Plugin) -> None:
    """Every default fits its annotation, and instances do not share it."""
    parameters = _parameters(plugin)
    defaults = {option.name: option.default for option in parameters if option.default is not option.empty}
    for name, default in defaults.items():
        expect(not isinstance(default, (list, dict, set)), "the default of must", name=name, default=default)
    required_names = {option.name for option in parameters} - defaults.keys()
    if required_names <= plugin.arguments.keys():
        arguments = defaults | {name: plugin.arguments[name] for name in required_names}
        try:
            validate_arguments(arguments_model(type(plugin)), "plugin", arguments)
        except InvalidArgumentsError as error:
            raise failed("a default does not", error=error) from error


def check_arguments_are_stored(plugin: Plugin) -> None:
    """``__init__`` only stores its arguments, under their own names."""
    for parameter in _parameters(plugin):
        name = parameter.name
        free = name not in _RESERVED and not callable(getattr(type(plugin), name, None))
        expect(free, "the argument of __init__ has", name=name)
        expect(hasattr(plugin, name), "__init__ does not store", name=name)
        stored, argument = getattr(plugin, name), plugin.arguments.get(name)
        if argument is not None:  # For None a plugin may take its own value.
            expect(_same(stored, argument), "__init__ must store its", name=name, argument=argument, stored=stored)


def check_methods_take_the_arguments_of_the_contract(plugin: Plugin) -> None:
    """Every method can be called as the contract says, and returns its result as a whole."""
    for contract in type(plugin).__mro__:
        if not contract.__module__.startswith("prmcal."):
            continue
        for name, method in vars(contract).items():
            if name.startswith("_") or not inspect.isfunction(method):
                continue
            method_of_plugin = getattr(plugin, name)
            if getattr(method_of_plugin, "__func__", None) is not method:
                _require_signature(plugin, name, method_of_plugin, method)


def _require_signature(plugin: Plugin, name: str, method_of_plugin: Any, method: Any) -> None:
    """Fail unless the method of a plugin takes the arguments of the contract's `method`."""
    expected = list(inspect.signature(method).parameters.values())[1:]
    words = ", ".join(["self", *(str(parameter.replace(annotation=parameter.empty)) for parameter in expected)])
    extra = {"questions": None} if name == "fit" and getattr(plugin, "grouped", False) else {}
    words += "".join(f", {extra_name}" for extra_name in extra)
    expect(callable(method_of_plugin), "must be a method", name=name, own=method_of_plugin, words=words)
    is_lazy = inspect.isgeneratorfunction(method_of_plugin) or inspect.iscoroutinefunction(method_of_plugin)
    expect(not is_lazy, "must return its result", name=name)
    signature = inspect.signature(method_of_plugin)
    required = [parameter for parameter in expected if parameter.default is parameter.empty]
    for arguments in (expected, required):
        try:
            signature.bind(*arguments, **extra)
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


def _same(stored: Any, argument: Any) -> bool:
    """Return whether an argument was stored as it is. A tuple may replace a list."""
    if isinstance(stored, (list, tuple)) and isinstance(argument, (list, tuple)):
        return list(stored) == list(argument)
    equal = stored == argument
    return isinstance(equal, bool) and equal


def _parameters(plugin: Plugin) -> list[inspect.Parameter]:
    return list(inspect.signature(type(plugin)).parameters.values())


DECLARATIONS = (
    check_arguments_are_annotated,
    check_defaults_are_valid,
    check_arguments_are_stored,
    check_methods_take_the_arguments_of_the_contract,
)
"""The checks of the declarations of a class. If one of them fails, the others would fail for misleading reasons."""

CHECKS = further_checks(globals(), DECLARATIONS)
