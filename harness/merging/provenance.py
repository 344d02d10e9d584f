"""Rows of the database that only a merged leaderboard has: where cells come from, who verified them, other seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from prmcal.db.tables import CellSubmission, Run, SeedSpread
from prmcal.db.tables import Submission as SubmissionRow
from prmcal.db.tables.base import Base
from prmcal.harness.merging.naming.namespaces import Namespace
from prmcal.harness.merging.outdated import outdated
from prmcal.harness.merging.submissions.conditions import SEED, compatible
from prmcal.harness.merging.submissions.verifications import Recorded, tier_of, verification_row
from prmcal.harness.merging.union import MergedCell, Union
from prmcal.harness.storage.folder import grid_text
from prmcal.harness.storage.keys import content_key
from prmcal.harness.storage.store import Store

__all__ = ["cell_columns", "run_rows", "seed_spreads", "submission_rows"]


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
            run_id=each.record.run_id,
            cells=cells[submission.submission_id],
            texts=submission.texts,
        )
    yield from map(verification_row, recorded)


def run_rows(union: Union) -> list[Base]:
    """Return a row for each run that measured a submission."""
    rows: list[Base] = []
    # Of several submissions of a run, the row of the first one stays, because later rows replace earlier ones.
    for each in reversed(union.submissions):
        record = each.record
        rows.append(
            Run(
                run_id=record.run_id,
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


def seed_spreads(union: Union, store: Store, intact: Container[str]) -> list[Base]:
    """Return the spread of each value between cells that are equal in all but the seed.

    Submissions that contradict an earlier one are not counted, because they are no further measurement. `intact` are
    the ids of the cells whose artifacts can be read.
    """
    groups: dict[tuple[int, str], list[MergedCell]] = {}
    alike = _alike_but_seed(union.namespaces)
    for merged in union.cells.values():
        if merged.cell.cell_id in intact and merged.namespace in alike:
            groups.setdefault((alike[merged.namespace], merged.without_namespace), []).append(merged)
    return [row for cells in groups.values() if len(cells) > 1 for row in _spreads(cells, store)]


def _alike_but_seed(namespaces: Sequence[Namespace]) -> dict[int, int]:
    """Return the group of each namespace without a conflict. Those of a group differ in nothing but the seed."""
    found: dict[int, int] = {}
    first: list[tuple[int, Mapping[str, Any], set[Any]]] = []
    for number, space in enumerate(namespaces):
        if space.conflict or SEED not in space.conditions:
            continue
        others = {
            name: value for name, value in {**space.conditions, **space.further}.items() if name != SEED
        }
        seed = space.conditions[SEED]
        for group, conditions, seeds in first:
            if compatible(others, conditions) and seed not in seeds:
                seeds.add(seed)
                found[number] = group
                break
        else:
            first.append((number, others, {seed}))
            found[number] = number
    return found


def _spreads(cells: Sequence[MergedCell], store: Store) -> Iterator[SeedSpread]:
    values: dict[str, list[float]] = {}
    for merged in cells:
        for metric, value in _values(merged, store):
            values.setdefault(metric, []).append(value)
    for metric, measured in values.items():
        if len(measured) == len(cells):
            for merged in cells:
                yield SeedSpread(
                    cell_id=merged.cell.cell_id,
                    metric=metric,
                    seeds=len(measured),
                    mean=statistics.fmean(measured),
                    standard_deviation=statistics.stdev(measured),
                    lowest=min(measured),
                    highest=max(measured),
                )


def _values(merged: MergedCell, store: Store) -> Iterable[tuple[str, float]]:
    """Return the values of a cell over all questions, by metric."""
    for ref in merged.cell.job.refs:
        table = store.read(ref.kind, ref.key, "results")
        rows = table.select(["metric", "question_level", "value"]).to_pylist()
        yield from (
            (row["metric"], row["value"])
            for row in rows
            if row["question_level"] is None and math.isfinite(row["value"])
        )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)
