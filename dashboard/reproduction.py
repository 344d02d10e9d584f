"""How to reproduce one cell: the part of the grid that the cell needs, and the commands."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from prmcal.db.metrics import cell_id as identifier

__all__ = ["commands", "grid_of_cell", "with_names_of_grid"]

_SECTIONS = {
    "llm": "llms",
    "prm": "prms",
    "calibrator": "calibrators",
    "dataset": "datasets",
    "strategy": "strategies",
}
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
    return _text(
        {
            **whole,
            "name": f"{whole['name']}-cell",
            "llms": _named(whole["llms"], cell["llm"]),
            "prms": _named(whole["prms"], cell["prm"]),
            "calibrators": calibrators,
            "datasets": _named(whole["datasets"], cell["dataset"]),
            **({"scaling": scaling} if scaling else {}),
            "strategies": [_strategy(whole, cell["strategy"], calibrators)],
        }
    )


def with_names_of_grid(grid: str, cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a cell of a merged leaderboard with the names that the grid of its submission has.

    The names on a merged leaderboard also say what differs, such as ``nano-middle (seed 1)``.

    Parameters
    ----------
    grid : str
        The whole grid as YAML.
    cell : mapping
        The row of the cell in the table ``cells``.

    Raises
    ------
    KeyError, ValueError, TypeError
        If the grid has no cell with the identifier that the row has by the names in the grids.
    """
    whole: dict[str, Any] = yaml.safe_load(grid)
    names = [_candidates(whole, kind, cell[kind]) for kind in _SECTIONS]
    rows = [{**cell, **dict(zip(_SECTIONS, each, strict=True))} for each in itertools.product(*names)]
    (found,) = [row for row in rows if _identifier(row) == (cell["base_id"] or cell["cell_id"])]
    return {**found, "cell_id": _identifier(found)}


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


def _candidates(whole: Mapping[str, Any], kind: str, shown: str | None) -> list[str | None]:
    """Return the names in a grid that a merged leaderboard may show as `shown`."""
    if shown is None:
        return [None]
    names = [spec["name"] for spec in whole[_SECTIONS[kind]]]
    return [name for name in names if shown == name or shown.startswith(f"{name} (")]


def _identifier(row: Mapping[str, Any]) -> str:
    settings = {name: row[name] for name in ("prm", "calibrator", "strategy", "target", "level")}
    return identifier(row["leaderboard"], row["llm"], row["dataset"], **settings)


def _strategy(
    whole: Mapping[str, Any], name: str | None, calibrators: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    if name is None:
        return _CHEAPEST
    (spec,) = [each for each in whole["strategies"] if each["name"] == name]
    kept = [each["name"] for each in calibrators]
    return {**spec, "calibrators": kept} if spec.get("calibrators") else spec


def _text(grid: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(dict(grid), sort_keys=False, allow_unicode=True)
    return text
