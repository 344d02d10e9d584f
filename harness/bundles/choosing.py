"""Which cells are submitted, and the part of the plan and of the grid that they need."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from prmcal.errors import RunError
from prmcal.harness.execution.failures import Failure, failed_cells
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import HiddenParameters, Parameters
from prmcal.harness.planning.plan import Cell, Plan, part_of
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.storage.folder import RunRecord
from prmcal.harness.storage.store import ArtifactRef

__all__ = ["chosen_cells", "grid_of", "part_for", "plan_with_identities", "unfinished_cells"]

_SECTIONS = {
    "llms": "llm",
    "prms": "prm",
    "calibrators": "calibrator",
    "datasets": "dataset",
    "strategies": "strategy",
}


def plan_with_identities(directory: Path, record: RunRecord) -> Plan:
    """Return the saved plan of a folder, which says what its keys are made of.

    Raises
    ------
    RunError
        If an earlier version of prmcal wrote the plan, or the file is damaged.
    """
    plan = read_plan(directory, record.grid)
    if plan is None or any(shard.version == 0 for shard in plan.shards()):
        raise RunError(
            f"{directory} was run with an earlier version of prmcal, which did not save what its keys are made of. "
            "Run the grid again with the same --out folder: finished work is kept."
        )
    return plan


def unfinished_cells(plan: Plan, finished: Collection[ArtifactRef]) -> set[str]:
    """Return the ids of the cells without results."""
    return {cell.cell_id for cell in plan.cells if any(ref not in finished for ref in cell.job.refs)}


def chosen_cells(
    plan: Plan,
    ids: Collection[str] | None,
    finished: Collection[ArtifactRef],
    failures: Mapping[str, Failure],
) -> list[Cell]:
    """Return the cells with these ids in the order of the plan; all finished cells for None.

    Raises
    ------
    RunError
        If a cell is unknown or neither finished nor failed, no cell is left, or an artifact behind a cell is absent.
    """
    unfinished = unfinished_cells(plan, finished)
    if ids is None:
        found = [cell for cell in plan.cells if cell.cell_id not in unfinished]
    else:
        found = [cell for cell in plan.cells if cell.cell_id in set(ids)]
        if unknown := set(ids) - {cell.cell_id for cell in found}:
            raise RunError(f"The plan of the run has no cell '{min(unknown)}'.")
        waiting = [each for each in ids if each in unfinished and each not in failed_cells(plan, failures)]
        if waiting:
            count = "A chosen cell is" if len(waiting) == 1 else f"{len(waiting)} of the chosen cells are"
            raise RunError(
                f"{count} not finished, such as {waiting[0]}. Run the grid to its end, or choose other cells."
            )
    if not found:
        raise RunError("No cell of the run is finished. `prmcal status DIR` says what is missing.")
    _check_inputs([cell for cell in found if cell.cell_id not in unfinished], finished)
    return found


def part_for(plan: Plan, cells: Collection[Cell]) -> Plan:
    """Return the part of a plan that computes some cells, with the plugins and the data sets of this part only."""
    part = part_of(plan, cells)
    labels = [job.labels for job in part.jobs]
    used = {
        kind: {getattr(each, kind) for each in labels} for kind in ("llm", "prm", "calibrator", "dataset")
    }
    used["strategy"] = {cell.strategy for cell in cells}
    plugins = {
        kind: tuple(each for each in found if kind not in used or each.name in used[kind])
        for kind, found in part.plugins.items()
    }
    splits = {(each.dataset, each.split) for each in labels}
    datasets = tuple(each for each in part.datasets if (each.name, each.split) in splits)
    return replace(part, plugins=plugins, datasets=datasets, _shards={}, _owners={})


def grid_of(grid: Mapping[str, Any], part: Plan) -> dict[str, Any]:
    """Return the data of a grid with the plugins and the data sets of a part of its plan."""
    found = dict(grid)
    for section in _SECTIONS.keys() & grid.keys():
        names = {each.name for each in part.plugins.get(_SECTIONS[section], ())}
        found[section] = [each for each in grid[section] if each["name"] in names]
    return found


def _check_inputs(cells: Collection[Cell], finished: Collection[ArtifactRef]) -> None:
    """Check that all artifacts behind cells are there. Hidden states may be absent: they are never submitted."""
    seen: set[str] = set()
    waiting: list[Job[Parameters]] = [cell.job for cell in cells]
    while waiting:
        job = waiting.pop()
        if job.key in seen:
            continue
        seen.add(job.key)
        waiting += job.inputs
        absent = [ref for ref in job.refs if ref not in finished]
        if absent and not isinstance(job.shards[0].parameters, HiddenParameters):
            raise RunError(
                f"The artifact {absent[0].kind}/{absent[0].key} behind a chosen cell is absent. "
                "Run the grid again with the same --out folder: only what is missing is computed."
            )
