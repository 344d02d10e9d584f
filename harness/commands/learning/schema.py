"""``prmcal schema``: the JSON Schema of a grid file."""

from __future__ import annotations

import json

from prmcal.harness.planning.grid_file.schema import grid_schema

__all__ = ["render_schema"]


def render_schema() -> str:
    """Return the JSON Schema of a grid file as text, with the plugins that are registered now."""
    return json.dumps(grid_schema(), indent=1, ensure_ascii=False) + "\n"
