"""Write a run to the database: rows for runs, plugins, jobs and cells, bulk loads for the artifacts, and comparisons.

The recorder runs in the coordinator, which is the only writer. Its transactions are short, and it publishes a copy for
readers every few seconds, or less often if this takes long.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import yaml

from prmcal.db.queries.curves import references
from prmcal.db.tables import Base, Cell, DatasetRow, DescribedMetric, JobInput, JobRow, PluginRow, QuestionRow, RunRow
from prmcal.db.text.formats import counted
from prmcal.db.writer import Values, Writer
from prmcal.errors import RunError
from prmcal.harness.execution import ending
from prmcal.harness.execution.comparisons import compared_cells
from prmcal.harness.execution.events import ShardOutcome
from prmcal.harness.execution.machine import run_environment
from prmcal.harness.execution.progress import Pace
from prmcal.harness.jobs.job import Job, JobLabels
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import Plan, PlannedCell
from prmcal.harness.planning.saved import is_saved_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import ArtifactRef, Manifest, Store, content_key

SECONDS_BETWEEN_WRITES, SHARE_FOR_WRITING = 5.0, 0.02
"""Readers see new results after this time, or later if writing and publishing would take more than this share."""

JOB_TABLES = {
    "graded": ("trajectories",),
    "verdicts": ("verdicts",),
    "success": ("successes",),
    "imported": ("trajectories", "successes"),
    "score": ("rewards",),
    "calibrated": ("calibrated_rewards",),
    "curves": ("curve_points", "sample_accuracies"),
    "graded_search": ("searches",),
}
"""The tables in the artifacts of each kind of job. Samples are loaded by job, measurements by cell."""
_COORDINATES = ("llm", "prm", "calibrator", "dataset")
_COSTS = ("seconds", "samples", "generated_tokens", "scored_tokens")
_CELL_TABLES = ("results", "question_results", "reliability_bins", "signed_error_bins", "league_points")


class Recorder:
    """Write the state and the results of a run, whose finished shards are `done` at the start.

    Attributes
    ----------
    manifests : dict of ArtifactRef to Manifest
        The finished shards.
    failures : dict of str to Failure
        Why shards failed, by their keys.
    ending : Ending or None
        The signal that ended the run before its work was done.
    """

    def __init__(
        self,
        writer: Writer,
        folder: RunFolder,
        plan: Plan,
        store: Store,
        record: RunRecord,
        done: Mapping[ArtifactRef, Manifest],
    ) -> None:
        self.writer = writer
        self.plan = plan
        self.store = store
        self.record = record
        self.manifests = dict(done)
        self.failures: dict[str, ending.Failure] = {}
        self.ending: ending.Ending | None = None
        self._done = len(done)
        self._pace = Pace(SHARE_FOR_WRITING, SECONDS_BETWEEN_WRITES)
        self._folder = folder
        self._stored = writer.stored()
        self._loaded_jobs: set[str] = set()
        self._loaded_cells: set[str] = set()
        self._references: set[str] = set()
        self._unwritten: dict[str, Job[Parameters]] = {}
        self._cells_of: dict[str, list[PlannedCell]] = defaultdict(list)
        for cell in plan.cells:
            self._cells_of[cell.job.key].append(cell)
        # By the keys of jobs: the shards that are not finished, and the status of the jobs of which one failed.
        self._missing: dict[str, set[ArtifactRef]] = {}
        self._failed: dict[str, str] = {}

    def lost_cells(self, part: Plan, drop: bool) -> list[str]:
        """Return the ids of the finished cells whose results the run deletes and does not compute again.

        `part` is what the run computes. Raises a RunError if there are any, unless they are to be dropped.
        """
        jobs = {cell.cell_id: cell.job.key for cell in self.plan.cells}
        again = {cell.cell_id for cell in part.cells}
        lost = [cell for cell, job in self._stored.cells.items() if cell not in again and jobs.get(cell) != job]
        if not lost or drop:
            return lost
        why, instead = "which this grid does not have", "Choose another --out folder"
        if lost[0] in jobs:
            why = "whose plugins or parameters changed, and for which it is not asked"
            instead = "Run the whole grid"
        raise RunError(
            f"The run would delete {counted(len(lost), 'finished cell')} of {self._folder.directory}, such as "
            f"'{lost[0]}', {why}. Nothing was changed. {instead}, or set --drop-cells to delete them from the "
            "database; their artifacts stay."
        )

    def is_current(self) -> bool:
        """Return whether the database has all that a run would write: the plan is the last one, and finished."""
        return (
            all(shard.ref in self.manifests for shard in self.plan.shards())
            and is_saved_plan(self._folder.directory, self.record.grid, self.plan)
            and self._stored.cells == {cell.cell_id: cell.job.key for cell in self.plan.cells}
            and self._stored.ended
        )

    @contextmanager
    def recording(self, failures: Mapping[str, ending.Failure], again: Collection[ArtifactRef] = ()) -> Iterator[None]:
        """Write the plan and what is finished, run the block, and write the rest of the results.

        The block notes outcomes. If it raises an error or sets `ending`, the run is marked as interrupted, and the next
        one continues from the artifacts. Else the cells are compared and the run is marked as ended.

        `failures` say why shards failed in earlier runs, by their keys. They are noted again, except those of the
        shards in `again`, which are tried again.
        """
        self._read_state()
        self._write(begin=True)
        for shard in self.plan.shards():
            if shard.ref.key in failures and shard.ref not in again and shard.ref not in self.manifests:
                blocked = any(ref.key in failures for refs in shard.inputs.values() for ref in refs)
                self.note(ShardOutcome(shard.ref, failure=failures[shard.ref.key], blocked=blocked))
        status, comparisons = "interrupted", None
        try:
            yield
            if self.ending is None:
                status = "failed" if self.failures else "done"
        finally:
            self._write(publish=False)
            if status != "interrupted":
                comparisons = self._comparisons()
                if not self.record.finished_at:
                    self.record = replace(self.record, finished_at=datetime.now(UTC).isoformat())
                    self._folder.write_record(self.record)
            with self.writer.transaction(publish=True) as transaction:
                if comparisons is not None:
                    transaction.replace_comparisons(comparisons)
                transaction.check_health()
                transaction.record(self.run_rows(status))

    def _read_state(self) -> None:
        """Find out which jobs and cells are finished, and which of them the database has.

        A finished cell of an earlier form of the grid counts only if the same job measures the cell of its name now.
        """
        self._missing = {job.key: {ref for ref in job.refs if ref not in self.manifests} for job in self.plan.jobs}
        self._unwritten = {job.key: job for job in self.plan.jobs}
        finished = {key for key, missing in self._missing.items() if not missing}
        self._loaded_jobs = finished & self._stored.jobs
        self._loaded_cells = {
            cell.cell_id
            for cell in self.plan.cells
            if cell.job.key in finished and self._stored.cells.get(cell.cell_id) == cell.job.key
        }

    def note(self, outcome: ShardOutcome) -> None:
        """Note an outcome. Write all new results if the last time is long enough ago."""
        if outcome.manifest is not None:
            self.manifests[outcome.ref] = outcome.manifest
        else:
            assert outcome.failure is not None
            self.failures[outcome.ref.key] = outcome.failure
        for job in self.plan.owners(outcome.ref):
            if outcome.manifest is not None:
                self._missing[job.key].discard(outcome.ref)
            elif outcome.blocked or job.key not in self._failed:
                self._failed[job.key] = "blocked" if outcome.blocked else "failed"
            if self._status(job) != "pending":
                self._unwritten[job.key] = job
        if self._unwritten and self._pace.due:
            with self._pace.work():
                self._write()

    def _comparisons(self) -> list[Mapping[str, Values]]:
        """Compare the finished cells, except those of strategies that need the truth."""
        cells = [cell for cell in self.plan.cells if cell.cell_id not in self._references]
        done = [cell for cell in cells if self._status(cell.job) == "done"]
        better = {metric.name: metric.better for metric in self.plan.metrics}
        return list(compared_cells(done, self.store, better))

    def summary(self, part: Plan, seconds: float, log: Path) -> ending.RunSummary:
        """Return the summary of the run, which was asked for a part of the plan."""
        failed = ending.failed_cells(part, self.failures)
        reasons_of_cells = {failure.reason for failure in failed.values()}
        graders = {
            failure.reason: ending.FailureGroup(failure, ())
            for failure in self.failures.values()
            if failure.plugin.startswith("grader:") and failure.reason not in reasons_of_cells
        }
        done = len(self.manifests.keys() & {shard.ref for shard in part.shards()})
        computed = len(self.manifests) - self._done
        return ending.RunSummary(
            computed=computed,
            reused=done - computed,
            cells=len(part.cells),
            done_cells=sum(self.manifests.keys() >= set(cell.job.refs) for cell in part.cells),
            failed_cells=len(failed),
            grid_cells=len(self.plan.cells),
            failures=(*ending.grouped(failed), *graders.values()),
            seconds=seconds,
            log=log,
            ending=self.ending,
        )

    def _status(self, job: Job[Parameters]) -> str:
        return self._failed.get(job.key, "pending") if self._missing[job.key] else "done"

    def _reason(self, job: Job[Parameters]) -> str:
        keys = (shard.ref.key for shard in job.shards)
        reasons = dict.fromkeys(self.failures[key].reason for key in keys if key in self.failures)
        return "; ".join(reasons)

    def _write(self, publish: bool = True, begin: bool = False) -> None:
        finished = [job for job in self._unwritten.values() if self._status(job) == "done"]
        # One call for all rows: row by row, they take longer than the artifacts.
        rows: list[Base] = []
        for job in self._unwritten.values():
            rows += [self.job_row(job), *map(self.cell_row, self._cells_of[job.key])]
        if begin:
            rows = [*self.run_rows("running"), *self.description(), *rows]
        files = self._new_files(finished)
        ending.write_failures(self._folder.directory, self.failures)
        with self.writer.transaction(publish=publish) as transaction:
            if begin:
                transaction.interrupt_runs()
                transaction.prune(self._loaded_jobs, self._loaded_cells)
            for table, by_owner in files.items():
                transaction.load(table, by_owner)
            transaction.record(rows)
            if begin:
                self._references.update(references(transaction.connection))
        self._loaded_jobs.update(job.key for job in finished)
        self._loaded_cells.update(cell.cell_id for job in finished for cell in self._cells_of[job.key])
        self._unwritten.clear()

    def _new_files(self, finished: Sequence[Job[Parameters]]) -> dict[str, dict[str, list[Path]]]:
        """Return the files of finished jobs that are not loaded, by their tables and by their owners."""
        files: dict[str, dict[str, list[Path]]] = defaultdict(dict)
        for job in finished:
            for table in JOB_TABLES.get(job.kind, ()) if job.key not in self._loaded_jobs else ():
                files[table][job.key] = self._files(job, table)
            for cell in self._cells_of[job.key]:
                for table in _CELL_TABLES if cell.cell_id not in self._loaded_cells else ():
                    files[table][cell.cell_id] = self._files(job, table)
        return files

    def _files(self, job: Job[Parameters], table: str) -> list[Path]:
        paths = [self.store.folder(s.ref) / f"{table}.parquet" for s in job.shards]
        return [path for path in paths if path.exists()]

    def run_rows(self, status: str) -> list[Base]:
        """Return the rows of the runs that measured the results, with a status for this run."""
        finished = "" if status == "running" else self.record.finished_at or datetime.now(UTC).isoformat()
        environment = self.record.environment or run_environment()
        record = replace(self.record, finished_at=finished, environment=environment)
        return [*(run_row(source, "done") for source in record.sources), run_row(record, status)]

    def description(self) -> list[Base]:
        """Return the rows that describe the plan: plugins, metrics, data sets, and inputs of jobs."""
        rows: list[Base] = []
        for kind, plugins in self.plan.plugins.items():
            for position, plugin in enumerate(plugins):
                names = {"kind": kind, "name": plugin.name, "plugin": plugin.reference.plugin}
                arguments, identity = dict(plugin.reference.arguments), dict(plugin.identity)
                about = {"citation": plugin.citation, "position": position}
                rows.append(PluginRow(**names, arguments=arguments, identity=identity, **about))
        rows += [
            DescribedMetric(**asdict(metric), position=position) for position, metric in enumerate(self.plan.metrics)
        ]
        for data in self.plan.datasets:
            rows.append(DatasetRow(**{**asdict(replace(data, questions=())), "questions": len(data.questions)}))
            for question in data.questions:
                row = asdict(question)
                row["question_id"] = row.pop("id")
                del row["options"]
                row["fields"] = dict(question.fields)
                row["level"] = None if question.level is None else str(question.level)
                rows.append(QuestionRow(dataset=data.name, split=data.split, **row))
        rows += [
            JobInput(job_key=job.key, input_key=source.key)
            for job in self.plan.jobs
            for source in {source.key: source for source in job.inputs}.values()
        ]
        return rows

    def cell_row(self, cell: PlannedCell) -> Cell:
        """Return the row of a cell with its present status."""
        status = self._status(cell.job).replace("blocked", "failed")
        return Cell(
            cell_id=cell.cell_id,
            leaderboard=cell.leaderboard,
            **_names(cell.labels, _COORDINATES),
            strategy=cell.strategy or None,
            target=cell.target,
            level=cell.level,
            job_key=cell.job.key,
            status=status,
            reason=self._reason(cell.job) or None,
            source=(cell.source or self.record.run_id) if status == "done" else None,
            difference=cell.difference or None,
        )

    def job_row(self, job: Job[Parameters]) -> JobRow:
        """Return the row of a job with its present status and its cost, and the parameters that all shards share."""
        manifests = [self.manifests[shard.ref] for shard in job.shards if shard.ref in self.manifests]
        first, *others = (shard.parameters.stored() for shard in job.shards)
        shared = {name: value for name, value in first.items() if all(other[name] == value for other in others)}
        return JobRow(
            job_key=job.key,
            kind=job.kind,
            **_names(job.labels, (*_COORDINATES, "split")),
            parameters={**shared, "shards": [{"key": shard.ref.key} for shard in job.shards]},
            status=self._status(job),
            reason=self._reason(job) or None,
            shards=len(job.shards),
            **{cost: sum(getattr(manifest, cost) for manifest in manifests) for cost in _COSTS},
        )


def run_row(record: RunRecord, status: str) -> RunRow:
    """Return the row of a run. The record of the run has its environment."""
    return RunRow(
        run_id=record.run_id,
        grid_name=record.grid["name"],
        grid_key=content_key(record.grid),
        grid=yaml.safe_dump(record.grid, sort_keys=False, allow_unicode=True),
        started_at=utc(record.started_at),
        finished_at=utc(record.finished_at) if record.finished_at else None,
        status=status,
        **record.environment,
    )


def utc(time: str) -> datetime:
    """Return a time of a record in UTC without a time zone, as the database has it."""
    moment = datetime.fromisoformat(time)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _names(labels: JobLabels, columns: Sequence[str]) -> dict[str, str | None]:
    """Return names as the columns of a row; None for kinds that do not apply."""
    return {column: getattr(labels, column) or None for column in columns}
