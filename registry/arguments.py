"""Validate the constructor arguments of plugins by the annotations of the constructor.

An annotation gives the type of an argument and, through pydantic, its range: ``Annotated[int, Field(ge=1)]``. A
`description` in the ``Field`` replaces what the error message of pydantic says about the argument.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.messages import shown


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

    Raises an InvalidArgumentsError if an argument is unknown, is missing, or has a wrong type or value.

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
        name = str(error.errors()[0]["loc"][0])
        if name not in arguments:
            raise InvalidArgumentsError(f"The {plugin} needs the argument '{name}'.") from error
        raise InvalidArgumentsError(
            f"The '{name}' parameter of the {plugin} {_rule(known[name], error)}. Got {shown(arguments[name])} instead."
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


def _rule(field: FieldInfo, error: ValidationError) -> str:
    """Return what the first argument of an error must be, in the words of its description or of pydantic."""
    if field.description:
        return f"must be {field.description}"
    errors = error.errors()
    # A union has an error for each of its types.
    said = dict.fromkeys(each["msg"] for each in errors if each["loc"][0] == errors[0]["loc"][0])
    if all(each.startswith("Input should be ") for each in said):
        return f"must be {' or '.join(each.removeprefix('Input should be ') for each in said)}"
    return f"is invalid ({next(iter(said)).removeprefix('Value error, ')})"
