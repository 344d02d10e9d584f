"""Run a grid: lock the folder, plan the grid, compute the missing shards, record the results."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from prmcal.db.run_folder import LOG_FILE
from prmcal.errors import StorageError
from prmcal.harness.costs.estimate import CostModel
from prmcal.harness.costs.time_left import seconds_left
from prmcal.harness.execution.crew import CrewFile
from prmcal.harness.execution.failures import FailureGroup, failed_cells, grouped
from prmcal.harness.execution.log import RunLog
from prmcal.harness.execution.progress import Progress
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.execution.schedule import Outcome, Schedule
from prmcal.harness.executors.executor import Executor, Notice
from prmcal.harness.executors.local import LocalExecutor
from prmcal.harness.machine.gpus import check_workers, visible_gpus
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Manifest, Store

__all__ = ["RunSummary", "finished_shards", "run_grid"]


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run.

    Attributes
    ----------
    computed, reused : int
        Shards that were computed, and shards that were finished before.
    cells, failed_cells : int
        All lines of the leaderboards, and the failed ones among them.
    failures : tuple of FailureGroup
        Why cells failed, those with the same reason together.
    seconds : float
        Wall time of the run.
    log : Path
        The log of the run.
    """

    computed: int
    reused: int
    cells: int
    failed_cells: int
    failures: tuple[FailureGroup, ...]
    seconds: float
    log: Path


def run_grid(
    grid: GridSpec,
    directory: Path,
    workers: int,
    plugin_files: Sequence[Path] = (),
    executor: Executor | None = None,
    stream: TextIO | None = None,
    log_file: Path | None = None,
) -> RunSummary:
    """Run a grid in a folder. Finished shards in the folder are reused.

    Parameters
    ----------
    grid : GridSpec
    directory : Path
        The output folder.
    workers : int
        Worker processes of the local executor.
    plugin_files : sequence of Path
        Plugin files. They must be loaded already, and every worker loads them.
    executor : Executor, optional
        Runs the shards; by default on this machine.
    stream : text file, optional
        Where the progress is written; by default standard error.
    log_file : Path, optional
        Where the log is written; by default ``run.log`` in the folder.

    Raises
    ------
    RunError
        If the folder is locked or belongs to another grid.
    PrmcalError
        If there are not enough GPUs for this number of workers.
    StorageError
        If the disk is full. Finished shards are kept.
    """
    if executor is None:
        check_workers(grid, workers)
    begin = time.monotonic()
    folder = RunFolder(directory)
    plan = build_plan(grid)
    with folder.lock():
        folder.claim(grid.name)
        record = RunRecord(
            grid=grid.model_dump(mode="json"),
            plugin_files=[str(path.resolve()) for path in plugin_files],
            run_id=secrets.token_hex(6),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            workers=workers,
            log=str((log_file or directory / LOG_FILE).resolve()),
        )
        folder.write_record(record)
        store = Store(directory)
        store.remove_leftovers()
        done = finished_shards(plan, store)
        recorder = Recorder(folder, plan, store, record)
        recorder.begin(done)
        cost = CostModel(plan, store.all_manifests(known=done), on_gpus=bool(visible_gpus()))
        log = RunLog(log_file or directory / LOG_FILE, plan)
        log.begin(len(done), workers)
        progress = Progress(plan, len(done), lambda left: _seconds_left(left, cost, workers), stream)
        try:
            _execute(
                Schedule(plan, done),
                recorder,
                executor
                or LocalExecutor(directory, workers, plugin_files, time_limit=3600 * grid.shards.time_limit),
                cost,
                progress,
                CrewFile(directory, plan),
                log,
            )
            recorder.end()
            log.end(time.monotonic() - begin, recorder.pace.seconds)
        finally:
            log.close()
    failed = failed_cells(plan, recorder.failures)
    return RunSummary(
        computed=len(recorder.manifests) - len(done),
        reused=len(done),
        cells=len(plan.cells),
        failed_cells=len(failed),
        failures=grouped(failed),
        seconds=time.monotonic() - begin,
        log=log.file,
    )


def finished_shards(plan: Plan, store: Store) -> dict[ArtifactRef, Manifest]:
    """Return the shards of a plan with intact artifacts. The hashes of all files are compared."""
    return store.manifests(shard.ref for shard in plan.shards())


def _seconds_left(schedule: Schedule, cost: CostModel, workers: int) -> float | None:
    now = time.monotonic()
    elapsed = {ref: now - begin for ref, begin in schedule.started.items()}
    return seconds_left(schedule.unfinished, cost, workers, elapsed)


def _execute(
    schedule: Schedule,
    recorder: Recorder,
    executor: Executor,
    cost: CostModel,
    progress: Progress,
    crew: CrewFile,
    log: RunLog,
) -> None:
    try:
        for event in executor.run(schedule):
            match event:
                case Notice(line, details):
                    log.write(line, details)
                case Outcome() as outcome:
                    log.note(outcome)
                    if outcome.fatal:
                        raise StorageError(outcome.failure.reason if outcome.failure else "")
                    if outcome.manifest is not None:
                        cost.learn(outcome.ref, outcome.manifest)
                    recorder.note(outcome)
                    progress.count(outcome)
            progress.update(schedule)
            crew.update(schedule)
    except BaseException as error:
        log.write(f"The run was interrupted ({type(error).__name__}). Finished work is kept.")
        recorder.abandon()
        raise
    finally:
        progress.close()
