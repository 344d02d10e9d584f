"""The checks for every plugin, and explanations of the errors that a plugin raises in a check."""

import inspect
import json
import linecache
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.messages import excerpt, message_of
from prmcal.registry.sources import arguments_model, parameters_of, validate_arguments

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


def expect(condition: object, message: str) -> None:
    """Fail the check unless the condition holds. A message says what is wrong, what is there, and what to write."""
    if not condition:
        raise AssertionError(message)


def further_checks(names: dict[str, Any], declarations: tuple[Check, ...] = ()) -> tuple[Check, ...]:
    """Return the checks among the names of a module that are no declarations, in the order of their definitions."""
    return tuple(check for name, check in names.items() if name.startswith("check_") and check not in declarations)


def expect_array(what: str, values: Any, dtype: type[np.generic]) -> None:
    """Fail the check unless `values` is an array of numpy of this type."""
    actual = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
    name = "float64" if dtype is np.floating else np.dtype(dtype).name
    expect(
        isinstance(values, np.ndarray) and bool(np.issubdtype(values.dtype, dtype)),
        f"{what} must be an array of {name}. Got {actual}. Write np.asarray(..., dtype=np.{name}).",
    )


def check_arguments_are_annotated(plugin: Plugin) -> None:
    """Prmcal validates every constructor argument by its annotation."""
    for parameter in parameters_of(type(plugin)):
        is_named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        expect(
            is_named,
            f"__init__ must name its arguments. Got '{parameter}', which a grid cannot fill and job keys do not "
            "contain. Write every argument with its annotation and default, such as bins: int = 10.",
        )
        annotated = parameter.annotation is not parameter.empty
        expect(
            annotated,
            f"The argument '{parameter.name}' of __init__ must have an annotation, by which prmcal validates it. "
            "Write its type, such as int or float.",
        )


def check_defaults_are_valid(plugin: Plugin) -> None:
    """Every default fits its annotation, and instances do not share it."""
    parameters = parameters_of(type(plugin))
    defaults = {option.name: option.default for option in parameters if option.default is not option.empty}
    for name, default in defaults.items():
        expect(
            not isinstance(default, (list, dict, set)),
            f"The default of '{name}' must not be a {type(default).__name__}, because all instances share it. Write "
            f"{name}: {type(default).__name__} | None = None, and use the value where it is None.",
        )
    required_names = {option.name for option in parameters} - defaults.keys()
    if required_names <= plugin.arguments.keys():
        arguments = defaults | {name: plugin.arguments[name] for name in required_names}
        try:
            validate_arguments(arguments_model(type(plugin)), "plugin", arguments)
        except InvalidArgumentsError as error:
            raise AssertionError(
                f"A default does not fit its annotation: {error} Change the default or the annotation in __init__."
            ) from error


def check_arguments_are_stored(plugin: Plugin) -> None:
    """``__init__`` only stores its arguments, under their own names."""
    for parameter in parameters_of(type(plugin)):
        name = parameter.name
        free = name not in _RESERVED and not callable(getattr(type(plugin), name, None))
        expect(free, f"The argument '{name}' has the name of another attribute. Choose another name.")
        expect(
            hasattr(plugin, name),
            f"__init__ does not store its argument '{name}' under this name. Write self.{name} = {name} in __init__, "
            "and compute from it where it is used.",
        )
        stored, argument = getattr(plugin, name), plugin.arguments.get(name)
        if argument is not None:  # For None a plugin may take its own value.
            expect(
                _same(stored, argument),
                f"__init__ must store its argument '{name}' as it is. It was built with {argument!r} and stores "
                f"{stored!r}. Write self.{name} = {name} in __init__, and compute from it where it is used.",
            )


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
    expect(
        callable(method_of_plugin), f"'{name}' must be a method. Got {method_of_plugin!r}. Write def {name}({words})."
    )
    is_lazy = inspect.isgeneratorfunction(method_of_plugin) or inspect.iscoroutinefunction(method_of_plugin)
    expect(not is_lazy, f"{name}() must return its result as a whole. Write return, not yield or async def.")
    signature = inspect.signature(method_of_plugin)
    required = [parameter for parameter in expected if parameter.default is parameter.empty]
    for arguments in (expected, required):
        try:
            signature.bind(*arguments, **extra)
        except TypeError as error:
            raise AssertionError(
                f"{name}() is called with the arguments of its contract, but takes {signature}: {error}. Write def "
                f"{name}({words})."
            ) from error


def check_identity_is_json_data(plugin: Plugin) -> None:
    """The identity is JSON data and always the same, since job keys depend on it."""
    identity = plugin.identity()
    try:
        text = json.dumps(identity, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(
            f"identity() must be JSON data, but it cannot be written: {error}. Got {identity!r}. Use strings, "
            "numbers, lists and dicts, also as arguments of __init__."
        ) from error
    again = json.dumps(plugin.identity(), sort_keys=True)
    expect(text == again, f"identity() must not change between calls. Got {text}, then {again}. Use arguments only.")


def _same(stored: Any, argument: Any) -> bool:
    """Return whether an argument was stored as it is. A tuple may replace a list."""
    if isinstance(stored, (list, tuple)) and isinstance(argument, (list, tuple)):
        return list(stored) == list(argument)
    equal = stored == argument
    return isinstance(equal, bool) and equal


DECLARATIONS = (
    check_arguments_are_annotated,
    check_defaults_are_valid,
    check_arguments_are_stored,
    check_methods_take_the_arguments_of_the_contract,
)
"""The checks of the declarations of a class. If one of them fails, the others would fail for misleading reasons."""

CHECKS = further_checks(globals(), DECLARATIONS)
