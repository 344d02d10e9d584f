"""What a run is asked for: the whole grid, the cells with certain names, or those that failed before."""

from __future__ import annotations

from prmcal.db import catalog
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.selection import cells_with, part_of
from prmcal.harness.storage.folder import RunFolder, RunRecord

__all__ = ["asked_part", "cells_to_retry"]


def asked_part(plan: Plan, record: RunRecord) -> Plan:
    """Return the part of a plan that a run was asked for. It has no cells if none is to be tried again.

    Raises
    ------
    GridError
        If no cell has the names that the run was asked for.
    """
    cells = cells_with(plan, record.only)
    if record.retried is not None:
        retried = set(record.retried)
        cells = [cell for cell in cells if cell.cell_id in retried]
    return part_of(plan, cells)


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
