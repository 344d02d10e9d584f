"""Validate the constructor arguments of plugins by the annotations of the constructor.

An annotation gives the type of an argument and, through pydantic, its range: ``Annotated[int, Field(ge=1)]``. The
error messages are built from it. A `description` in the ``Field`` replaces what the message says about the argument.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.messages import shown

_TYPES = {int: "an int", float: "a float", str: "a string", bool: "a bool", NoneType: "None"}


def arguments_model(cls: type) -> type[BaseModel]:
    """Build the model that validates the constructor arguments of a class."""
    fields: dict[str, Any] = {}
    for parameter in _parameters(cls):
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (annotation, default)
    return create_model(
        "Arguments",
        __config__=ConfigDict(strict=False, arbitrary_types_allowed=True, protected_namespaces=()),
        **fields,
    )


def documented_arguments(cls: type) -> dict[str, str]:
    """Return what the docstring of a class and of its bases says about each constructor argument, in one line each.

    It reads the section "Parameters" in the format of numpydoc.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        section = re.search(
            r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", text, flags=re.DOTALL | re.MULTILINE
        )
        if section is None:
            continue
        for names, meaning in re.findall(
            r"^(\S[^:\n]*) :[^\n]*((?:\n(?: +[^\n]*)?)*)", section[1], flags=re.MULTILINE
        ):
            found |= {name.strip(): " ".join(meaning.split()) for name in names.split(",")}
    return found


def validate_arguments(model: type[BaseModel], plugin: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Validate arguments, and fill in the defaults of those that are not given.

    Parameters
    ----------
    model : type
        The model of :func:`arguments_model`.
    plugin : str
        The plugin in error messages, such as "calibrator 'histogram'".
    arguments : mapping
        The given arguments.

    Returns
    -------
    dict
        The value of every argument, in the order of the constructor.

    Raises
    ------
    InvalidArgumentsError
        If an argument is unknown, is missing, or has a wrong type or value.
    """
    known = model.model_fields
    unknown = [name for name in arguments if name not in known]
    if unknown:
        close = difflib.get_close_matches(unknown[0], list(known), n=1)
        hint = f"Did you mean '{close[0]}'?" if close else f"It takes: {', '.join(known) or 'none'}."
        raise InvalidArgumentsError(f"The {plugin} has no argument '{unknown[0]}'. {hint}")
    try:
        validated = model(**arguments)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        if name not in arguments:
            raise InvalidArgumentsError(f"The {plugin} needs the argument '{name}'.") from error
        expected = known[name].description or _expected(known[name].rebuild_annotation())
        raise InvalidArgumentsError(
            f"The '{name}' parameter of the {plugin} "
            + (
                f"must be {expected}"
                if expected
                else f"is invalid ({first['msg'].removeprefix('Value error, ')})"
            )
            + f". Got {shown(arguments[name])} instead."
        ) from error
    return {name: getattr(validated, name) for name in known}


def _parameters(cls: type) -> list[inspect.Parameter]:
    """The constructor's parameters, with resolved annotations where that is possible."""
    # The fields of a dataclass may be annotated in the modules of its bases.
    names: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        names |= vars(sys.modules[base.__module__])
    try:
        signature = inspect.signature(cls, globals=names, eval_str=True)
    except NameError:  # An annotation uses a name that is imported for type checkers only.
        signature = inspect.signature(cls)
        return [parameter.replace(annotation=Any) for parameter in signature.parameters.values()]
    return list(signature.parameters.values())


def _expected(annotation: Any) -> str | None:
    """What an annotation allows, in words: "an int in [1, inf)". None if there are no simple words for it."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        described = [each.description for each in parts[1:] if isinstance(each, FieldInfo)]
        return next(filter(None, described), None) or _expected_range(parts[0], list(_limits(parts[1:])))
    if origin is Literal:
        return _alternatives([repr(value) for value in parts])
    if origin in (Union, UnionType):
        words = [_expected(part) for part in parts]
        return None if None in words else _alternatives([each for each in words if each])
    return _TYPES.get(annotation)


def _expected_range(number: Any, limits: list[Any]) -> str | None:
    """What a type with limits allows, in words."""
    words = _expected(number)
    if words is None or not limits:
        return words
    low, high = "(-inf", "inf)"
    for limit in limits:
        match limit:
            case annotated_types.Ge(value):
                low = f"[{value}"
            case annotated_types.Gt(value):
                low = f"({value}"
            case annotated_types.Le(value):
                high = f"{value}]"
            case annotated_types.Lt(value):
                high = f"{value})"
            case _:
                return None
    return f"{words} in {low}, {high}"


def _limits(metadata: tuple[Any, ...]) -> Iterator[Any]:
    """The limits in the metadata of an annotation, where a Field holds several."""
    for each in metadata:
        yield from each.metadata if isinstance(each, FieldInfo) else [each]


def _alternatives(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
