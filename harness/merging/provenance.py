"""Rows and columns of the database that only a merged leaderboard has: where cells come from, and who verified them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from prmcal.db.tables import CellSubmission, Run
from prmcal.db.tables import Submission as SubmissionRow
from prmcal.db.tables.base import Base
from prmcal.harness.merging.outdated import outdated
from prmcal.harness.merging.submissions.verifications import Recorded, tier_of, verification_row
from prmcal.harness.merging.union import MergedCell, Union
from prmcal.harness.storage.folder import grid_text
from prmcal.harness.storage.store import content_key

__all__ = ["cell_columns", "run_rows", "submission_rows"]


def cell_columns(union: Union, merged: MergedCell, recorded: Sequence[Recorded]) -> dict[str, Any]:
    """Return the columns of a cell that say where it comes from."""
    found: dict[str, Any] = {"variant": merged.variant}
    if merged.cell.cell_id != merged.base_id:
        found["base_id"] = merged.base_id
    if merged.done:
        first = merged.done[0]
        found["measured_at"] = _time(first.measured_at)
        own = union.own_cells(first)[merged.cell.cell_id]
        found["outdated"] = outdated(first, own) or None
        ids = {each.submission_id: union.own_cells(each)[merged.cell.cell_id].cell_id for each in merged.done}
        reached = tier_of(ids, recorded)
        if reached is not None:
            found |= vars(reached)
    return found


def submission_rows(union: Union, recorded: Sequence[Recorded]) -> Iterator[Base]:
    """Yield the rows of the submissions, of their cells, and of their verifications."""
    cells = dict.fromkeys((each.submission_id for each in union.submissions), 0)
    runs = _run_ids(union)
    for merged in union.cells.values():
        for each in merged.done:
            cells[each.submission_id] += 1
            yield CellSubmission(cell_id=merged.cell.cell_id, submission_id=each.submission_id)
    for each in union.submissions:
        submission = each.submission
        yield SubmissionRow(
            submission_id=submission.submission_id,
            submitter=submission.submitter,
            licence=submission.licence,
            note=submission.note,
            signed_by=submission.signed_by,
            run_id=runs[each.submission_id],
            cells=cells[submission.submission_id],
            texts=submission.texts,
        )
    yield from map(verification_row, recorded)


def run_rows(union: Union) -> list[Base]:
    """Return a row for each run that measured a submission."""
    rows: list[Base] = []
    runs = _run_ids(union)
    # Of several submissions of a run, the row of the first one stays, because later rows replace earlier ones.
    for each in reversed(union.submissions):
        record = each.record
        rows.append(
            Run(
                run_id=runs[each.submission_id],
                grid_name=record.grid.get("name", ""),
                grid_key=content_key(record.grid),
                grid=grid_text(record.grid),
                started_at=_time(record.started_at),
                finished_at=_time(record.finished_at) if record.finished_at else None,
                status="failed" if each.failures else "done",
                prmcal_version=each.submission.prmcal_version,
                packages=record.environment.get("packages", {}),
                hardware=record.environment.get("hardware", {}),
            )
        )
    return rows


def _run_ids(union: Union) -> dict[str, str]:
    """Return the id of the run of each submission. Parts of a run with grids of their own have different ids."""
    grids: dict[str, str] = {}
    found = {}
    for each in union.submissions:
        grid, run_id = content_key(each.record.grid), each.record.run_id
        same = grids.setdefault(run_id, grid) == grid
        found[each.submission_id] = run_id if same else f"{run_id}-{grid[:4]}"
    return found


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)
