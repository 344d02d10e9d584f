"""How to reproduce one cell: the part of the grid that the cell needs, and the commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

_CHEAPEST = {"name": "pass@1", "plugin": "pass@1"}


def grid_of_cell(grid: str, cell: Mapping[str, Any]) -> str:
    """Return the grid file of a single cell. Its settings and seed are those of the whole grid, so its keys are too.

    Parameters
    ----------
    grid : str
        The whole grid as YAML, as the run recorded it.
    cell : mapping
        The row of the cell. A grid needs at least one PRM and one calibrator. If the cell has none, the first of the
        whole grid is used.

    Raises
    ------
    KeyError, ValueError
        If the grid lacks a section, or a name of the cell.
    """
    whole: dict[str, Any] = yaml.safe_load(grid)
    calibrators = _named(whole["calibrators"], cell["calibrator"])
    scaling = dict(whole.get("scaling") or {})
    for setting, value in (("targets", cell["target"]), ("levels", cell["level"])):
        if value is not None and value in scaling.get(setting, ()):
            scaling[setting] = [value]
    part = {
        **whole,
        "name": f"{whole['name']}-cell",
        "llms": _named(whole["llms"], cell["llm"]),
        "prms": _named(whole["prms"], cell["prm"]),
        "calibrators": calibrators,
        "datasets": _named(whole["datasets"], cell["dataset"]),
        **({"scaling": scaling} if scaling else {}),
        "strategies": [_strategy(whole, cell["strategy"], calibrators)],
    }
    text: str = yaml.safe_dump(part, sort_keys=False, allow_unicode=True)
    return text


def commands(cell_id: str, plugin_files: Sequence[str] = ()) -> str:
    """Return the shell commands that run the grid file ``cell.yaml`` and show the cell."""
    plugins = "".join(f" --plugin {shlex.quote(Path(file).name)}" for file in plugin_files)
    return (
        f"prmcal run cell.yaml --out runs/cell{plugins}\nprmcal show {shlex.quote(cell_id)} --dir runs/cell"
    )


def _named(specs: Sequence[dict[str, Any]], name: str | None) -> list[dict[str, Any]]:
    """Return the plugin of a name; the first one if a cell has none."""
    found = [spec for spec in specs if name is None or spec["name"] == name][:1]
    if name is not None and not found:
        raise ValueError(f"The grid does not have {name!r}.")
    return found


def _strategy(
    whole: Mapping[str, Any], name: str | None, calibrators: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    if name is None:
        return _CHEAPEST
    (spec,) = [each for each in whole["strategies"] if each["name"] == name]
    kept = [each["name"] for each in calibrators]
    return {**spec, "calibrators": kept} if spec.get("calibrators") else spec
