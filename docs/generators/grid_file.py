"""The reference of the grid file, from the models that check it."""

from __future__ import annotations

import inspect
import json
from typing import Any

from pydantic import BaseModel

from docs.generators.markdown import code, table
from prmcal.harness.planning.grid import GridSpec, MeasurementSpec, PartSpec
from prmcal.harness.planning.reading import grid_schema, type_in_words
from prmcal.harness.planning.settings import (
    CalibrationSpec,
    CalibratorSpec,
    DatasetSpec,
    LLMSpec,
    PRMSpec,
    SamplingSpec,
    ScalingSpec,
    ShardSpec,
    StrategySpec,
)

_SECTIONS: dict[str, type[BaseModel]] = {
    "The grid": GridSpec,
    "An entry of `llms`": LLMSpec,
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


def _default(name: str, field: dict[str, Any]) -> str:
    if name == "plugin":
        return "`name`"
    default = field.get("default")
    if default is None or default in ({}, []) or isinstance(default, dict):
        return ""
    return code(json.dumps(default).strip('"') if not isinstance(default, list) else _flow(default))


def _flow(values: list[Any]) -> str:
    return f"[{', '.join(map(str, values))}]"
