"""The database of a merged leaderboard: that of a run with the plan of the union, and where its rows come from.

`prmcal.harness.share.union` says what tells the rows apart. The overview and the league read only rows whose version is
empty. The tables of submissions, verifications and seeds are empty in the database of a run.
"""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from prmcal.db import tables
from prmcal.db.metrics import TIERS
from prmcal.errors import PrmcalError
from prmcal.harness.execution.recorder import Recorder, run_row, utc
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import KINDS_OF_JOBS, Parameters
from prmcal.harness.planning.plan import Cell, with_inputs
from prmcal.harness.planning.saved import write_plan
from prmcal.harness.share.submissions import Submitted, Verification
from prmcal.harness.share.union import MergedCell, Union
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import Store, content_key
from prmcal.registry.plugins import KINDS, datasets

Records = Mapping[str, Verification]
"""Records of verifications by their ids."""
GRID_NAME = "merged leaderboard"
"""The name in the record. No grid file can have it, because it contains a space. So no run can claim the folder."""
_WITHOUT_FILES = ("strategy", "metric")
"""Kinds of plugins whose identity follows from their arguments. That of a model reads its files."""


def write_board(folder: Path, store: Store, union: Union, recorded: Records) -> None:
    """Write the plan, the record, the failures and the database of a merged leaderboard into a folder that exists."""
    # Its grid is always the same, so any of its plans belongs to it.
    record = RunRecord(
        grid={"name": GRID_NAME},
        plugin_files=[],
        run_id=content_key([each.submission_id for each in union.submissions])[:12],
        started_at=min(each.record.started_at for each in union.submissions),
        finished_at=max(each.measured_at for each in union.submissions),
    )
    write_plan(folder, record.grid, union.plan)
    RunFolder(folder).write_record(record)
    done = store.manifests((shard.ref for shard in union.plan.shards()), verify=False)
    recorder = _BoardRecorder(RunFolder(folder), store, record, union, recorded)
    recorder.begin(done)
    recorder.note_failures(union.failures)
    recorder.end()


class _BoardRecorder(Recorder):
    """A recorder that adds what only a merged leaderboard has. It publishes once."""

    def __init__(
        self, folder: RunFolder, store: Store, record: RunRecord, union: Union, recorded: Records
    ) -> None:
        super().__init__(folder, union.plan, store, record)
        self._union = union
        self._columns = {name: _columns(each, recorded) for name, each in union.cells.items()}
        self._runs = _run_ids(union)
        self._further = [*_submission_rows(union, self._runs, recorded), *_seed_spreads(union, store)]

    def publish(self, complete: bool) -> None:
        if complete:
            self.writer.finish()

    def run_rows(self, status: str) -> list[tables.Base]:
        # Of several submissions of a run, the row of the first one stays, because later rows replace earlier ones.
        rows: list[tables.Base] = []
        for each in reversed(self._union.submissions):
            environment = {"packages": {}, "hardware": {}, **each.record.environment}
            environment["prmcal_version"] = each.submission.prmcal_version
            own = replace(each.record, run_id=self._runs[each.submission_id], environment=environment)
            rows.append(run_row(own, "failed" if each.failures else "done"))
        return rows

    def description(self) -> list[tables.Base]:
        return [*super().description(), *self._further]

    def cell_row(self, cell: Cell) -> tables.Cell:
        row = super().cell_row(cell)
        for name, value in self._columns[cell.cell_id].items():
            setattr(row, name, value)
        return row

    def job_row(self, job: Job[Parameters]) -> tables.Job:
        row = super().job_row(job)
        row.conditions = self._union.curves.get(job.key, "")
        return row


def _columns(merged: MergedCell, recorded: Records) -> dict[str, Any]:
    """Return the columns of a cell that only a merged leaderboard has."""
    name = merged.cell.cell_id
    found: dict[str, Any] = {
        "base_id": None if name == merged.base_id else merged.base_id,
        "seed": merged.seed,
        "conditions": merged.cell.conditions,
        "version": merged.version,
        "conflict": merged.conflict,
    }
    if merged.done:
        first, cell = next(iter(merged.done.items()))
        found["measured_at"] = utc(first.measured_at)
        found["outdated"] = _outdated(first, cell) or None
        found |= _tier({each.submission_id for each in merged.done}, merged.base_id, recorded)
    return found


def _tier(submissions: Container[str], cell: str, recorded: Records) -> dict[str, Any]:
    """Return the highest tier that a cell passed, who verified it, and when. The earliest of equal tiers counts."""
    found = [
        (-_passed(each, cell), each.verified_at, name)
        for name, each in recorded.items()
        if each.submission in submissions
    ]
    if not found or not min(found)[0]:
        return {}
    passed, _, name = min(found)
    best = recorded[name]
    return {"tier": TIERS[-passed - 1], "verified_by": best.verified_by, "verified_at": utc(best.verified_at)}


def _passed(verification: Verification, cell: str) -> int:
    """Return how many tiers a cell passed without a failure before. A failed check without cells is of all cells."""
    failed = [
        TIERS.index(each.tier)
        for each in verification.checks
        if not each.passed and (not each.cells or cell in each.cells)
    ]
    return min([*failed, TIERS.index(verification.tier) + 1])


def _submission_rows(union: Union, runs: Mapping[str, str], recorded: Records) -> Iterator[tables.Base]:
    cells = dict.fromkeys((each.submission_id for each in union.submissions), 0)
    for merged in union.cells.values():
        for each in merged.done:
            cells[each.submission_id] += 1
            yield tables.CellSubmission(cell_id=merged.cell.cell_id, submission_id=each.submission_id)
    for each in union.submissions:
        names = ("submission_id", "submitter", "licence", "note", "signed_by", "texts")
        columns = {name: getattr(each.submission, name) for name in names}
        yield tables.Submission(**columns, run_id=runs[each.submission_id], cells=cells[each.submission_id])
    for name, found in recorded.items():
        checks = [{**asdict(check), "cells": list(check.cells)} for check in found.checks]
        yield tables.Verification(
            verification_id=name,
            submission_id=found.submission,
            tier=found.tier,
            passed=found.passed,
            verified_by=found.verified_by,
            verified_at=utc(found.verified_at),
            prmcal_version=found.prmcal_version,
            checks={"seed": found.seed, "checks": checks},
        )


def _run_ids(union: Union) -> dict[str, str]:
    """Return the id of the run of each submission. Parts of a run with grids of their own have different ids."""
    grids: dict[str, str] = {}
    found = {}
    for each in union.submissions:
        grid, run_id = content_key(each.record.grid), each.record.run_id
        same = grids.setdefault(run_id, grid) == grid
        found[each.submission_id] = run_id if same else f"{run_id}-{grid[:4]}"
    return found


def _seed_spreads(union: Union, store: Store) -> Iterator[tables.SeedSpread]:
    """Yield the spread of each value between rows that differ only in the seed, or are replicates."""
    for cells in union.seeds():
        measured = [each.cell for each in cells if each.done]
        values: dict[str, list[float]] = defaultdict(list)
        for ref in (ref for cell in measured for ref in cell.job.refs):
            for row in store.read(ref, "results").to_pylist():
                if row["question_level"] is None and math.isfinite(row["value"]):
                    values[row["metric"]].append(row["value"])
        for metric, own in values.items():
            if len(own) == len(measured) > 1:
                numbers = {
                    "seeds": len(own),
                    "mean": statistics.fmean(own),
                    "standard_deviation": statistics.stdev(own),
                    "lowest": min(own),
                    "highest": max(own),
                }
                yield from (
                    tables.SeedSpread(cell_id=cell.cell_id, metric=metric, **numbers) for cell in measured
                )


def _outdated(submission: Submitted, cell: Cell) -> str:
    """Return the versions behind a cell of a submission that are no longer current; empty if all are.

    Such as ``calibration_metrics 5, now 6; grader 2, now 3``. Plugins that are not registered on this machine are not
    compared.
    """
    jobs = with_inputs([cell.job])
    used = {(kind, getattr(job.labels, kind)) for job in jobs for kind in ("llm", "prm", "calibrator")}
    used |= {("strategy", cell.strategy)}
    graders = {(job.labels.dataset, job.labels.split) for job in jobs}
    found: set[tuple[str, Any, Any]] = {
        (job.kind, job.shards[0].version, KINDS_OF_JOBS[job.kind][0].version) for job in jobs
    }
    for kind, plugins in submission.plan.plugins.items():
        for plugin in plugins:
            given = plugin.reference.plugin, json.dumps(plugin.reference.arguments, sort_keys=True)
            if (kind, plugin.name) in used or (kind == "metric" and cell.leaderboard == "calibration"):
                version = plugin.identity.get("version")
                found.add((given[0], version, _version_now(kind, *given, version)))
            for data in submission.plan.datasets if kind == "dataset" else ():
                if data.name == plugin.name and (data.name, data.split) in graders:
                    version = data.grader_version
                    found.add(("grader", version, _version_now(kind, *given, version)))
    return "; ".join(sorted(f"{name} {version}, now {now}" for name, version, now in found if version != now))


@cache
def _version_now(kind: str, name: str, arguments: str, version: Any) -> Any:
    """Return the version that a plugin has here; that of a data set is its grader's.

    It is the given `version` if the plugin is not registered, lacks a package or has other arguments here.
    """
    with suppress(PrmcalError):
        if kind == "dataset":
            return datasets.create(name, **json.loads(arguments)).grader_version
        now = getattr(KINDS[kind].get(name), "version", None)
        if version is None or now in (None, version):
            return version
        if kind not in _WITHOUT_FILES:
            return now
        # A new version may change nothing for these arguments. Then the identity keeps the old one.
        return KINDS[kind].create(name, **json.loads(arguments)).identity().get("version", now)
    return version
