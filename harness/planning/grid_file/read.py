"""Reading a grid file, with messages that say where and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from prmcal.errors import GridError
from prmcal.harness.planning.grid_file.grid import GridSpec
from prmcal.harness.planning.grid_file.yaml_text import parse_yaml
from prmcal.registry.messages import reading, shown

__all__ = ["grid_of", "read_grid"]

_LARGEST_FILE = 250_000
"""Bytes. A larger file is not a grid, but perhaps the questions of a data set."""


def read_grid(path: Path) -> GridSpec:
    """Read and check a grid file.

    Raises
    ------
    GridError
        If the file cannot be read, is not YAML, or does not fit the schema. The message says where and what is wrong.
    """
    with reading(f"The grid file {path} cannot be read", kind=GridError):
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        if len(content) > _LARGEST_FILE:
            raise ValueError(f"it is larger than {_LARGEST_FILE:,} bytes")
        text = content.decode()
    with reading(f"The grid file {path} is not valid YAML", kind=GridError):
        data = parse_yaml(text)
    if not isinstance(data, dict):
        raise GridError(
            f"The grid file {path} must contain a mapping with the keys {', '.join(GridSpec.model_fields)}."
        )
    return grid_of(data, f"The grid file {path}")


def grid_of(data: Mapping[str, Any], origin: str) -> GridSpec:
    """Check the data of a grid. `origin` names it in messages.

    Raises
    ------
    GridError
        If the data does not fit the schema. The message says where and what is wrong.
    """
    try:
        return GridSpec.model_validate(dict(data))
    except ValidationError as error:
        raise GridError(f"{origin}: {_first_problem(error)}") from error


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"unknown key '{where}'. {_suggestion(problem['loc'])}"
    if problem["type"] == "missing":
        return f"the key '{where}' is missing."
    message = problem["msg"].removeprefix("Value error, ")
    if not where:
        return f"{message}."
    given = (
        ""
        if isinstance(problem.get("input"), (dict, list)) and problem["input"]
        else f" Got {shown(problem.get('input'))}."
    )
    return f"'{where}': {message}.{given}"


def _suggestion(location: tuple[int | str, ...]) -> str:
    import difflib

    model: Any = GridSpec
    for part in location[:-1]:
        if isinstance(part, str) and hasattr(model, "model_fields") and part in model.model_fields:
            model = _inner_model(model.model_fields[part].annotation)
    fields = list(getattr(model, "model_fields", {}))
    close = difflib.get_close_matches(str(location[-1]), fields, n=1)
    return f"Did you mean '{close[0]}'?" if close else f"Known keys: {', '.join(fields)}."


def _inner_model(annotation: Any) -> Any:
    arguments = getattr(annotation, "__args__", ())
    return arguments[0] if arguments else annotation
