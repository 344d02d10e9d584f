"""Finding and reading grid files, and their JSON Schema, which editors use for completion and errors.

Messages say where and what is wrong. The schema checks single fields. Only :func:`read_grid` checks several fields
together, such as a name that is used twice. The arguments of plugins are checked when a grid is planned.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from prmcal.errors import GridError
from prmcal.grids import shipped_grids
from prmcal.harness.planning.grid import DEFAULT_STRATEGIES, GridSpec
from prmcal.registry.messages import is_file, meant, reading, shown
from prmcal.registry.plugins import KINDS

_WORDS = {"string": "text", "boolean": "true or false", "object": "mapping"}
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
_DRAFT = "http://json-schema.org/draft-07/schema#"  # The newest draft that the language server of YAML knows.


def find_grid(grid: str) -> Path:
    """Return the file of a grid.

    `grid` is the path of a file, or the name of a shipped grid such as ``nano``. A file of that name comes first.

    Raises a GridError if there is neither such a file nor such a shipped grid.
    """
    path, shipped = Path(grid), shipped_grids()
    with suppress(OSError):  # a name that no file can have
        if path.exists() and not path.is_dir():
            return path
    if grid in shipped:
        return shipped[grid]
    unknown = f"There is no grid file {grid} and no shipped grid of that name."
    advice = f"The shipped grids are {', '.join(shipped)}."
    raise GridError(" ".join(filter(None, (unknown, meant(path.stem, shipped, ""), advice))))


def read_grid(path: Path) -> GridSpec:
    """Read and check a grid file.

    Raises a GridError if the file cannot be read, is not YAML, or does not fit the schema. The message says where and
    what is wrong.
    """
    with reading(f"The grid file {path} cannot be read", kind=GridError):
        text = path.read_text(encoding="utf-8")
    with reading(f"The grid file {path} is not valid YAML", kind=GridError):
        data = _beside(yaml.load(text, _OnceLoader), path.parent)
    if not isinstance(data, dict):
        raise GridError(
            f"The grid file {path} must contain a mapping with the keys {', '.join(GridSpec.model_fields)}."
        )
    spec = grid_of(data, f"The grid file {path}")
    return spec.model_copy(update={"plugins": [str((path.parent / file).resolve()) for file in spec.plugins]})


class _OnceLoader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types.
    """Refuses a key that a mapping has twice: YAML would silently keep the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of a node."""
        keys: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in keys and key.tag != "tag:yaml.org,2002:merge":
                raise ValueError(f"the key '{key.value}' is given a second time in line {key.start_mark.line + 1}")
            keys.add(str(key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _beside(data: Any, folder: Path, argument: bool = False) -> Any:
    """Return data with whole paths of files and checkpoints in arguments that exist beside the grid, but not here."""
    if isinstance(data, dict):
        return {key: _beside(value, folder, argument or key == "arguments") for key, value in data.items()}
    if isinstance(data, list):
        return [_beside(value, folder, argument) for value in data]
    if argument and isinstance(data, str) and data and not _exists(data) and _exists(str(folder / data)):
        return str((folder / data).resolve())
    return data


def _exists(path: str) -> bool:
    """Return whether there is such a file, or a folder with a model or an adapter."""
    return any(map(is_file, (path, f"{path}/config.json", f"{path}/adapter_config.json")))


def grid_of(data: Mapping[str, Any], origin: str) -> GridSpec:
    """Check the data of a grid. `origin` names it in messages.

    Raises a GridError if the data does not fit the schema. The message says where and what is wrong.
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
    value = problem.get("input")
    got = "" if isinstance(value, (dict, list)) and value else f" Got {shown(value)}."
    return f"'{where}': {message}.{got}"


def _suggestion(location: tuple[int | str, ...]) -> str:
    model: Any = GridSpec
    for part in location[:-1]:
        if isinstance(part, str) and part in getattr(model, "model_fields", {}):
            annotation = model.model_fields[part].annotation
            # The entries of a list, or what is there besides None.
            model = next(iter(getattr(annotation, "__args__", ())), annotation)
    key, fields = str(location[-1]), list(getattr(model, "model_fields", {}))
    beside = " What a plugin takes belongs under `arguments`." if "arguments" in fields else ""
    return meant(key, fields, f"Known keys: {', '.join(fields)}.{beside}")


def grid_schema() -> dict[str, Any]:
    """Return the JSON Schema of a grid file with the plugins that are registered now.

    An entry of a plugin is its name or a mapping. Its arguments are not checked. The plugin need not be registered,
    since a plugin file may do this in the run.
    """
    schema = _for_editors(GridSpec.model_json_schema(ref_template="#/definitions/{model}"))
    definitions = schema.pop("$defs")
    for model, entry in definitions.items():  # An entry is called after the kind of its plugins.
        kind = "dataset" if model == "CalibrationSpec" else model.removesuffix("Spec").lower()
        if kind in KINDS:
            definitions[model] = _entry(entry, kind)
    schema["required"] = ["name", "calibrators"]
    whole_grid = ["llms", "prms", "datasets", "calibration"]
    schema["anyOf"] = [{"required": whole_grid}, {"required": ["parts"]}]
    schema["properties"]["strategies"]["default"] = list(DEFAULT_STRATEGIES)
    return {"$schema": _DRAFT, "title": "A grid of prmcal", **schema, "definitions": definitions}


def _entry(model: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the schema of an entry of a plugin: a registered name, any other name, or a mapping."""
    names = list(KINDS[kind].names())
    fields = {**model["properties"]}
    fields["plugin"] = {**fields["plugin"], "anyOf": [{"enum": names}, {"type": "string"}]}
    return {
        "description": model["description"],
        "type": ["string", "object"],
        "anyOf": [{"enum": names}, {}],  # Editors offer the names, and everything else is allowed too.
        "pattern": model["properties"]["name"]["pattern"],
        "properties": fields,
        "required": [name for name in model["required"] if name != "plugin"],
        "additionalProperties": False,
    }


def _for_editors(schema: Any) -> Any:
    """Return the schema without the titles that pydantic makes from names. A "$ref" has nothing beside it."""
    if isinstance(schema, list):
        return [_for_editors(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    titled = isinstance(schema.get("title"), str)
    untitled = {key: _for_editors(value) for key, value in schema.items() if not (titled and key == "title")}
    if "$ref" in untitled and len(untitled) > 1:  # In draft 7, nothing beside it is read.
        return {"allOf": [{"$ref": untitled["$ref"]}], "description": untitled["description"]}
    return untitled


def type_in_words(schema: dict[str, Any], definitions: dict[str, Any] | None = None) -> str:
    """Return the words for a JSON Schema, such as "integer, at least 1"."""
    reference = next((part["$ref"] for part in (schema, *schema.get("allOf", ())) if "$ref" in part), None)
    if reference:
        allowed = (definitions or {}).get(reference.rpartition("/")[2], {})
        return "name or mapping" if "string" in allowed.get("type", ()) else "mapping"
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema and "type" not in schema:
        choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        return " or ".join(type_in_words(choice, definitions) for choice in choices)
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of: {type_in_words(schema.get('items', {}), definitions)}"
    limits = [f"{word} {schema[key]:,}" for key, word in _LIMITS.items() if key in schema]
    return _WORDS.get(kind, kind) + (f", {' and '.join(limits)}" if limits else "")
