"""The checks for every plugin: what its class declares, its constructor, and its identity."""

from __future__ import annotations

import inspect
import json
from typing import Any

import numpy as np

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.arguments import arguments_model, validate_arguments
from prmcal.registry.conformance.source import heavy_imports
from prmcal.registry.contracts.plugin import Plugin

__all__ = ["CHECKS", "DECLARATIONS", "expect", "expect_array"]

_RESERVED = ("version", "citation", "packages", "plugin_name", "arguments")


class FailedCheckError(AssertionError):
    """A check failed. `cause` is the message without what is special in this check."""

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause


def expect(condition: bool, message: str, cause: str = "") -> None:
    """Fail the check with `message` unless the condition holds. `cause` is the same in all checks that it fails."""
    if not condition:
        raise FailedCheckError(message, cause)


def expect_array(what: str, values: Any, words: str, dtype: type[np.generic]) -> None:
    """Fail the check unless `values` is an array of numpy of this type."""
    found = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
    expect(
        isinstance(values, np.ndarray) and bool(np.issubdtype(values.dtype, dtype)),
        f"{what[0].upper()}{what[1:]} must be an array of {words}. Got {found}. Write np.asarray(..., "
        f"dtype=np.{np.dtype(dtype).name if dtype is not np.floating else 'float64'}).",
    )


def check_class_attributes(plugin: Plugin) -> None:
    """`version` is a string and `packages` is a tuple of strings."""
    version, packages = plugin.version, plugin.packages
    expect(
        isinstance(version, str) and bool(version.strip()),
        f"'version' must be a string that is not empty. Got {version!r}. Write version = \"1\", and raise it when "
        "the output changes.",
    )
    words = isinstance(packages, (tuple, list)) and all(isinstance(each, str) for each in packages)
    example = packages if isinstance(packages, str) else "torch"
    expect(
        words,
        f"'packages' must be a tuple of names. Got {packages!r}. Write packages = (\"{example}\",), with the comma.",
    )


def check_arguments_are_annotated(plugin: Plugin) -> None:
    """Prmcal validates every constructor argument by its annotation."""
    for parameter in _parameters(plugin):
        name = parameter.name
        expect(
            parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD),
            f"__init__ must name its arguments. Got '{parameter}', which a grid cannot fill and job keys do not "
            f"contain. Write every argument with its annotation and default, such as {name}: float = 1.0.",
        )
        given = parameter.default
        guess = type(given).__name__ if isinstance(given, (bool, int, float, str)) else "float"
        default = "" if given is parameter.empty else f" = {given!r}"
        expect(
            parameter.annotation is not parameter.empty,
            f"The argument '{name}' of __init__ must have an annotation, by which prmcal validates it. Write "
            f"{name}: {guess}{default}.",
        )


def check_defaults_are_valid(plugin: Plugin) -> None:
    """Every default fits its annotation, and instances do not share it."""
    parameters = _parameters(plugin)
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    for name, default in defaults.items():
        expect(
            not isinstance(default, (list, dict, set)),
            f"The default of '{name}' must not be a {type(default).__name__}, because all instances share it. Write "
            f"{name}: {type(default).__name__} | None = None, and use the value where it is None.",
        )
    needed = {each.name for each in parameters if each.default is each.empty}
    if needed <= plugin.arguments.keys():
        given = defaults | {name: plugin.arguments[name] for name in needed}
        try:
            validate_arguments(arguments_model(type(plugin)), "plugin", given)
        except InvalidArgumentsError as error:
            raise AssertionError(
                f"A default does not fit its annotation: {error} Change the default or the annotation in __init__."
            ) from error


def check_arguments_are_stored(plugin: Plugin) -> None:
    """``__init__`` only stores its arguments, under their own names."""
    for parameter in _parameters(plugin):
        name = parameter.name
        remedy = f"Write self.{name} = {name} in __init__, and compute from it where it is used."
        hidden = callable(getattr(type(plugin), name, None))
        expect(
            name not in _RESERVED and not hidden,
            f"The argument '{name}' of __init__ has the name of {'a method' if hidden else 'an attribute'} of all "
            "such plugins. Choose another name.",
        )
        expect(
            hasattr(plugin, name), f"__init__ does not store its argument '{name}' under this name. {remedy}"
        )
        stored, given = getattr(plugin, name), plugin.arguments.get(name)
        if given is not None:  # For None a plugin may take its own value.
            expect(
                _same(stored, given),
                f"__init__ must store its argument '{name}' as it is. It was built with {given!r} and stores "
                f"{stored!r}. {remedy}",
            )


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
    expect(callable(own), f"'{name}' must be a method. Got {own!r}. Write def {name}({words}).")
    expect(
        not inspect.isgeneratorfunction(own) and not inspect.iscoroutinefunction(own),
        f"{name}() must return its result as a whole. Write return, not yield or async def.",
    )
    signature = inspect.signature(own)
    required = [each for each in expected if each.default is each.empty]
    for given in (expected, required):
        try:
            signature.bind(*given, **extra)
        except TypeError as error:
            raise AssertionError(
                f"{name}() is called with the arguments of its contract, but takes {signature}: {error}. Write def "
                f"{name}({words})."
            ) from error


def check_heavy_packages_are_imported_late(plugin: Plugin) -> None:
    """The file imports no heavy package when it is loaded, so that commands stay fast."""
    for package, line, file in heavy_imports(type(plugin)):
        raise AssertionError(
            f"{file} imports {package} in line {line}, outside of functions, so that every command loads it. Move "
            f'the import into the method that uses it, and write packages = ("{package}",).'
        )


def check_identity_is_json_data(plugin: Plugin) -> None:
    """The identity is JSON data and always the same, since job keys depend on it."""
    identity = plugin.identity()
    try:
        text = json.dumps(identity, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(
            f"identity() must be JSON data, but it cannot be written: {error}. Got {identity!r}. Use strings, numbers, "
            "lists and dicts, also as arguments of __init__."
        ) from error
    again = json.dumps(plugin.identity(), sort_keys=True)
    expect(
        text == again,
        f"identity() must not change between calls. Got {text}, then {again}. Build it from the arguments only.",
    )


def _same(stored: Any, given: Any) -> bool:
    """Return whether an argument was stored as it is. A tuple may replace a list."""
    if isinstance(stored, (list, tuple)) and isinstance(given, (list, tuple)):
        return list(stored) == list(given)
    equal = stored == given
    return isinstance(equal, bool) and equal


def _parameters(plugin: Plugin) -> list[inspect.Parameter]:
    return list(inspect.signature(type(plugin)).parameters.values())


DECLARATIONS = (
    check_class_attributes,
    check_arguments_are_annotated,
    check_defaults_are_valid,
    check_arguments_are_stored,
    check_methods_take_the_arguments_of_the_contract,
    check_heavy_packages_are_imported_late,
)
"""The checks of what the class declares. If one of them fails, the others would fail for a reason that misleads."""

CHECKS = (check_identity_is_json_data,)
