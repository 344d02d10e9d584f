"""The JSON Schema of a grid file, which editors use for completion and errors.

It knows what a field and an argument of a plugin may be. What several fields have to do with each other, such as a name
that is used twice, only :func:`prmcal.harness.planning.reading.read_grid` checks.
"""

from __future__ import annotations

from typing import Any

from prmcal.harness.planning.grid import DEFAULT_STRATEGIES, GridSpec
from prmcal.registry.arguments import arguments_model, documented_arguments
from prmcal.registry.plugins import KINDS

_ENTRIES = {
    "llms": "llm",
    "prms": "prm",
    "calibrators": "calibrator",
    "datasets": "dataset",
    "strategies": "strategy",
}
"""The lists of a grid that name plugins, and the kind of these plugins."""

_DRAFT = "http://json-schema.org/draft-07/schema#"  # The newest draft that the language server of YAML knows.


def grid_schema() -> dict[str, Any]:
    """Return the JSON Schema of a grid file with the plugins that are registered now.

    An entry of a plugin is its name or a mapping. The arguments of a registered plugin are checked. A plugin that is
    not registered may have any arguments, since the grid may be run with a plugin file.
    """
    schema = _without_titles(GridSpec.model_json_schema())
    models, properties = schema.pop("$defs"), schema["properties"]
    entries: dict[str, Any] = {}
    for key, kind in _ENTRIES.items():
        model = properties[key]["items"]["$ref"].rpartition("/")[2]
        properties[key]["items"] = {"$ref": f"#/definitions/{kind}"}
        entries[kind] = _entry(models[model], kind)
    entries["calibration"] = _entry(models["CalibrationSpec"], "dataset")
    entries["metric"] = _entry(models["MetricSpec"], "metric")
    models["MeasurementSpec"]["properties"]["metrics"]["items"] = {"$ref": "#/definitions/metric"}
    for key in ("sampling", "measurement", "scaling", "shards"):
        entries[key] = models[properties[key]["$ref"].rpartition("/")[2]]
    for key in ("calibration", "sampling", "measurement", "scaling", "shards"):
        # In draft 7, nothing beside "$ref" is read.
        properties[key] = {
            "allOf": [{"$ref": f"#/definitions/{key}"}],
            "description": properties[key]["description"],
        }
    properties["strategies"]["default"] = list(DEFAULT_STRATEGIES)
    return {"$schema": _DRAFT, "title": "A grid of prmcal", **schema, "definitions": entries}


def _entry(model: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the schema of an entry of a plugin: a registered name, any other name, or a mapping."""
    registry = KINDS[kind]
    names = list(registry.names())
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
        "allOf": [_arguments_of(name, registry.get(name)) for name in names],
    }


def _arguments_of(name: str, plugin: type) -> dict[str, Any]:
    """Return the condition that an entry of a plugin has the arguments of its constructor."""
    arguments = _without_titles(arguments_model(plugin).model_json_schema())
    meanings = documented_arguments(plugin)
    for argument, allowed in arguments["properties"].items():
        if argument in meanings:
            allowed["description"] = meanings[argument]
    named = {"required": ["plugin"], "properties": {"plugin": {"const": name}}}
    short = {"required": ["name"], "properties": {"name": {"const": name}}, "not": {"required": ["plugin"]}}
    needed = {"required": ["arguments"]} if arguments.get("required") else {}
    return {
        "if": {"anyOf": [named, short]},
        "then": {"properties": {"arguments": {**arguments, "additionalProperties": False}}, **needed},
    }


def _without_titles(schema: Any) -> Any:
    """Return the schema without titles, which pydantic makes from the names of the fields."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
