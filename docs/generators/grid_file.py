"""The reference of the grid file, from the models that check it."""

from __future__ import annotations

import inspect
import json
from typing import Any

from pydantic import BaseModel

from prmcal.docs.generators.markdown import code, table
from prmcal.harness.planning.entries import (
    CalibrationSpec,
    CalibratorSpec,
    DatasetSpec,
    ModelSpec,
    PRMSpec,
    StrategySpec,
)
from prmcal.harness.planning.grid import GridSpec, MeasurementSpec, PartSpec
from prmcal.harness.planning.reading import grid_schema
from prmcal.harness.planning.settings import SamplingSpec, ScalingSpec, ShardSpec

_SECTIONS: dict[str, type[BaseModel]] = {
    "The grid": GridSpec,
    "An entry of `llms`": ModelSpec,
    "An entry of `prms`": PRMSpec,
    "An entry of `calibrators`": CalibratorSpec,
    "An entry of `datasets`": DatasetSpec,
    "An entry of `strategies`": StrategySpec,
    "`calibration`": CalibrationSpec,
    "`sampling`": SamplingSpec,
    "`measurement`": MeasurementSpec,
    "`scaling`": ScalingSpec,
    "`shards`": ShardSpec,
    "An entry of `parts`": PartSpec,
}
_TYPES = {
    "integer": "integer",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
}


def grid_reference() -> str:
    """Return a section for each part of a grid file, with a table of its fields."""
    return "\n".join(_section(title, model) for title, model in _SECTIONS.items())


def _section(title: str, model: type[BaseModel]) -> str:
    fields = grid_schema() if model is GridSpec else model.model_json_schema()
    required = set(fields.get("required", ())) - {"plugin"}
    rows = [
        [
            code(name),
            type_in_words(field, fields.get("definitions", {})),
            "required" if name in required else _default(name, field),
            field.get("description", ""),
        ]
        for name, field in fields["properties"].items()
    ]
    about = inspect.cleandoc(model.__doc__ or "").replace("``", "`")
    return f"## {title}\n\n{about}\n\n{table(['field', 'type', 'default', 'meaning'], rows)}"


def type_in_words(schema: dict[str, Any], definitions: dict[str, Any] | None = None) -> str:
    """Return what a JSON Schema allows, such as "integer, at least 1"."""
    reference = schema.get("$ref") or next(
        (each["$ref"] for each in schema.get("allOf", ()) if "$ref" in each), None
    )
    if reference:
        allowed = (definitions or {}).get(reference.rpartition("/")[2], {})
        return "name or mapping" if "string" in allowed.get("type", ()) else "mapping"
    if "enum" in schema or "const" in schema:
        return " or ".join(code(value) for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema and "type" not in schema:
        kinds = [type_in_words(each, definitions) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(kinds)
    kind = schema.get("type")
    if kind == "array":
        return f"list of: {type_in_words(schema.get('items', {}), definitions)}"
    if kind == "object":
        return "mapping"
    return _TYPES.get(str(kind), "any") + _range(schema)


def _range(schema: dict[str, Any]) -> str:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = [f"{word} {schema[key]:,}" for key, word in words.items() if key in schema]
    return f", {' and '.join(limits)}" if limits else ""


def _default(name: str, field: dict[str, Any]) -> str:
    if name == "plugin":
        return "`name`"
    default = field.get("default")
    if default is None or default in ({}, []) or isinstance(default, dict):
        return ""
    return code(json.dumps(default).strip('"') if not isinstance(default, list) else _flow(default))


def _flow(values: list[Any]) -> str:
    return f"[{', '.join(map(str, values))}]"
