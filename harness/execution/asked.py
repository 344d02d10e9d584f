"""The cells that a run is asked for: those of the whole grid, those with certain names, or those that failed before."""

from __future__ import annotations

from prmcal.db.queries import catalog
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.selection import cells_with
from prmcal.harness.storage.folder import RunFolder, RunRecord

__all__ = ["asked_cells", "cells_to_retry"]


def asked_cells(plan: Plan, record: RunRecord) -> list[Cell]:
    """Return the cells of a plan that a run was asked for."""
    named = cells_with(plan, record.only)
    if record.retried is None:
        return named
    retried = set(record.retried)
    return [cell for cell in named if cell.cell_id in retried]


def cells_to_retry(folder: RunFolder) -> list[str]:
    """Return the ids of the cells that failed in the latest run of a folder.

    If that run was itself asked for failed cells, those that it did not finish are among them: it may have been
    interrupted before it tried them. Cells are compared by their ids, because keys change when a plugin is corrected.

    Raises
    ------
    RunError
        If no grid was run in the folder.
    DatabaseError
        If the published database cannot be read.
    """
    retried = folder.record().retried or []
    if not folder.published.exists():
        return retried
    status = catalog.cells(folder.published).set_index("cell_id")["status"]
    unfinished = [cell for cell in retried if status.get(cell) != "done"]
    return sorted({*status.index[status == "failed"], *unfinished})
