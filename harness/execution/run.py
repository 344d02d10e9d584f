"""Run a grid: lock the folder, plan the grid, compute the missing shards, record the results."""

from __future__ import annotations

import math
import secrets
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TextIO

from prmcal.db.run_folder import LOG_FILE
from prmcal.db.text.formats import counted
from prmcal.db.writer import Writer
from prmcal.errors import PrmcalError, RunError, StorageError
from prmcal.harness.costs.estimate import CostModel, model_seconds
from prmcal.harness.costs.time_left import seconds_left
from prmcal.harness.execution.asked import asked_part, cells_to_retry
from prmcal.harness.execution.crew import CrewFile
from prmcal.harness.execution.ending import Ending, EndWatch
from prmcal.harness.execution.log import RunLog
from prmcal.harness.execution.progress import Progress
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.executors.executor import Executor, Notice
from prmcal.harness.executors.local import LocalExecutor
from prmcal.harness.machine.environment import run_environment
from prmcal.harness.machine.gpus import check_workers, visible_gpus
from prmcal.harness.planning.grid_file.grid import GridSpec
from prmcal.harness.planning.grid_file.read import grid_of
from prmcal.harness.planning.plan import Cell, Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.saved import write_plan
from prmcal.harness.planning.selection import Only, cells_with
from prmcal.harness.scheduling.failures import FailureGroup, failed_cells, grouped, read_failures
from prmcal.harness.scheduling.schedule import Outcome, Schedule
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Manifest, Store

__all__ = ["RunState", "RunSummary", "finished_shards", "run_further", "run_grid"]

RunState = Literal["done", "failed", "interrupted", "ended"]
"""How a run ended: with all cells that it was asked for, with failed ones, by a signal or an error, or out of time."""


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run.

    Attributes
    ----------
    computed, reused : int
        Shards that were computed, and shards that were finished before.
    cells, done_cells, failed_cells : int
        The lines of the leaderboards that the run was asked for, and the finished and the failed ones among them.
    grid_cells : int
        All lines of the leaderboards.
    failures : tuple of FailureGroup
        Why cells failed, those with the same reason together.
    seconds : float
        Wall time of the run.
    log : Path
        The log of the run.
    ending : Ending or None
        What ended the run before its work was done.
    """

    computed: int
    reused: int
    cells: int
    done_cells: int
    failed_cells: int
    grid_cells: int
    failures: tuple[FailureGroup, ...]
    seconds: float
    log: Path
    ending: Ending | None = None

    @property
    def state(self) -> RunState:
        """How it ended."""
        if self.ending is not None:
            return "ended" if self.ending == "max-hours" else "interrupted"
        return "failed" if self.failed_cells else "done"


def run_grid(
    grid: GridSpec,
    directory: Path,
    workers: int,
    plugin_files: Sequence[Path] = (),
    executor: Executor | None = None,
    stream: TextIO | None = None,
    log_file: Path | None = None,
    *,
    only: Only | None = None,
    retry_failed: bool = False,
    max_hours: float | None = None,
    on_finish: Callable[[RunSummary], None] | None = None,
    drop_cells: bool = False,
) -> RunSummary:
    """Run a grid in a folder. Finished shards in the folder are reused.

    The first SIGINT, SIGTERM or SIGHUP ends the run: workers stop at once, and finished shards are recorded.

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
    only : mapping of str to sequence of str, optional
        Run what the cells with these names need. Other cells stay as they are. See :func:`cells_with`.
    retry_failed : bool
        Run what the cells need that failed in the latest run of the folder. If none failed, nothing is done.
    max_hours : float, optional
        The time after which the run ends, in hours, above 0.
    on_finish : callable, optional
        Is called with the summary when the folder is unlocked again, also after an error ended the run.
    drop_cells : bool
        Whether finished cells that the run would not compute again are deleted from the database, if the grid does
        not have them or they have changed. Their artifacts stay.

    Raises
    ------
    GridError
        If no cell has the names.
    RunError
        If the folder is locked or belongs to another grid, or finished cells would be deleted without `drop_cells`:
        the grid does not have them, or they have changed and the run is not asked for them.
    PrmcalError
        If there are not enough GPUs for this number of workers, or `max_hours` is out of range.
    StorageError
        If the disk is full. Finished shards are kept.
    """
    if executor is None:
        check_workers(grid, workers)
    begin = time.monotonic()
    deadline = begin + _seconds(max_hours)
    folder = RunFolder(directory)
    log_path = log_file or directory / LOG_FILE
    plan = build_plan(grid)
    cells_with(plan, only or {})  # A wrong name is an error before the folder is touched.
    error: Exception | None = None
    with folder.lock():
        folder.claim(grid.name)
        record = RunRecord(
            grid=grid.model_dump(mode="json"),
            plugin_files=[str(path.resolve()) for path in plugin_files],
            run_id=secrets.token_hex(6),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            workers=workers,
            log=folder.relative(log_path),
            environment=run_environment(),
            only={kind: list(names) for kind, names in (only or {}).items()},
            retried=cells_to_retry(folder) if retry_failed else None,
        )
        part = asked_part(plan, record)
        if not part.cells:
            return RunSummary(0, 0, 0, 0, 0, len(plan.cells), (), time.monotonic() - begin, log_path)
        dropped = _lost_cells(folder, plan, part.cells)
        if dropped and not drop_cells:
            raise RunError(_refusal(directory, plan, dropped))
        failures = read_failures(directory)
        write_plan(directory, record.grid, plan, model_seconds(plan))
        folder.write_record(record)
        store = Store(directory)
        store.remove_leftovers()
        done = finished_shards(plan, store)
        schedule = Schedule(part, done)
        reused = len({shard.ref for shard in part.shards()}.intersection(done))
        recorder = Recorder(folder, plan, store, record)
        cost = CostModel(plan, store.all_manifests(known=done), on_gpus=bool(visible_gpus()))
        log = RunLog(log_path, part)
        log.begin(reused, workers)
        if dropped:
            line = f"Finished cells of an earlier form of the grid are deleted: {len(dropped):,}."
            log.write(line, dropped)
        progress = Progress(part, reused, lambda left: _seconds_left(left, cost, workers), stream)
        crew = CrewFile(directory, part)

        def note(event: Outcome | Notice) -> None:
            if isinstance(event, Notice):
                log.write(event.line, event.details)
                return
            log.note(event)
            if event.fatal:
                raise StorageError(event.failure.reason if event.failure else "")
            if event.manifest is not None:
                cost.learn(event.ref, event.manifest)
            recorder.note(event)
            progress.count(event)

        def show(now: Schedule) -> None:
            progress.update(now)
            crew.update(now)

        ending: Ending | None
        try:
            with EndWatch(deadline) as watch:
                recorder.begin(done)
                recorder.note_failures(failures, but={shard.ref for shard in part.shards()})
                try:
                    ending = _execute(
                        schedule,
                        executor or _local(directory, grid, workers, plugin_files),
                        watch,
                        note,
                        show,
                    )
                except BaseException as raised:
                    log.write(f"The run was interrupted ({type(raised).__name__}). Finished work is kept.")
                    recorder.abandon()
                    raise
                finally:
                    with suppress(OSError):  # A terminal that was closed cannot be cleared.
                        progress.close()
                if ending is None:
                    recorder.end()
                else:
                    log.write(f"The run was ended by {ending}. Finished work is kept.")
                    recorder.abandon()
                log.end(time.monotonic() - begin, recorder.pace.seconds)
        except Exception as raised:
            ending, error = "error", raised
        finally:
            log.close()
    failed = failed_cells(part, recorder.failures)
    summary = RunSummary(
        computed=len(recorder.manifests) - len(done),
        reused=reused,
        cells=len(part.cells),
        done_cells=sum(
            all(shard.ref in recorder.manifests for shard in cell.job.shards) for cell in part.cells
        ),
        failed_cells=len(failed),
        grid_cells=len(plan.cells),
        failures=grouped(failed),
        seconds=time.monotonic() - begin,
        log=log.file,
        ending=ending,
    )
    if on_finish is not None:
        on_finish(summary)
    if error is not None:
        raise error
    return summary


def finished_shards(plan: Plan, store: Store) -> dict[ArtifactRef, Manifest]:
    """Return the shards of a plan with intact artifacts. The hashes of all files are compared."""
    return store.manifests(shard.ref for shard in plan.shards())


def _lost_cells(folder: RunFolder, plan: Plan, asked: Collection[Cell]) -> list[str]:
    """Return the ids of the finished cells whose results the run would delete and not compute again."""
    if not folder.database.exists():
        return []
    jobs = {cell.cell_id: cell.job.key for cell in plan.cells}
    again = {cell.cell_id for cell in asked}
    finished = Writer(folder.database, folder.published).finished_cells()
    return [cell for cell, job in finished.items() if cell not in again and jobs.get(cell) != job]


def _refusal(directory: Path, plan: Plan, lost: Sequence[str]) -> str:
    if lost[0] in {cell.cell_id for cell in plan.cells}:
        why = "whose plugins or settings changed, and for which it is not asked"
        instead = "Run the whole grid"
    else:
        why, instead = "which this grid does not have", "Choose another --out folder"
    return (
        f"The run would delete {counted(len(lost), 'finished cell')} of {directory}, such as '{lost[0]}', {why}. "
        f"Nothing was changed. {instead}, or set --drop-cells to delete them from the database; their artifacts stay."
    )


def _seconds_left(schedule: Schedule, cost: CostModel, workers: int) -> float | None:
    now = time.monotonic()
    elapsed = {ref: now - begin for ref, begin in schedule.started.items()}
    return seconds_left(schedule.unfinished, cost, workers, elapsed)


def _seconds(hours: float | None) -> float:
    if hours is None:
        return math.inf
    if not hours > 0:
        raise PrmcalError(f"The time of a run (--max-hours) must be a number above 0. Got {hours:g}.")
    return hours * 3600


def run_further(
    plan: Plan,
    folder: RunFolder,
    record: RunRecord,
    workers: int,
    begin: Callable[[int, float | None], None],
    stream: TextIO | None = None,
) -> None:
    """Compute the missing shards of a plan in the folder of a run, beside those of its grid. No result is recorded.

    A signal ends it as it ends a run, and is then raised again.

    Parameters
    ----------
    plan : Plan
        Jobs that the grid of the run does not have, such as more trajectories of its questions.
    folder : RunFolder
        The caller holds its lock.
    record : RunRecord
        The run of the folder.
    workers : int
    begin : callable
        Called before the work with the number of completions that are sampled, and the estimated seconds if known.
    stream : text file, optional
        Where the progress is written; by default standard error.

    Raises
    ------
    PrmcalError
        If a shard failed, or there are not enough GPUs for this number of workers.
    StorageError
        If the disk is full. Finished shards are kept.
    """
    grid = grid_of(record.grid, f"The grid in {folder.directory}")
    check_workers(grid, workers)
    store = Store(folder.directory)
    store.remove_leftovers()
    done = finished_shards(plan, store)
    schedule = Schedule(plan, done)
    cost = CostModel(plan, store.all_manifests(known=done), on_gpus=bool(visible_gpus()))
    begin(
        sum(round(cost.samples(each)) for each in schedule.unfinished), _seconds_left(schedule, cost, workers)
    )
    progress = Progress(plan, len(done), lambda left: _seconds_left(left, cost, workers), stream)
    executor = _local(folder.directory, grid, workers, [Path(file) for file in record.plugin_files])

    def note(event: Outcome | Notice) -> None:
        if isinstance(event, Outcome):
            if event.manifest is None:
                failed = StorageError if event.fatal else PrmcalError
                raise failed(event.failure.reason if event.failure else "")
            cost.learn(event.ref, event.manifest)
            progress.count(event)

    try:
        with EndWatch() as watch:
            ending = _execute(schedule, executor, watch, note, progress.update)
    finally:
        progress.close()
    if ending is not None:
        signal.raise_signal(signal.Signals[ending])  # Now that the workers have ended.


def _local(directory: Path, grid: GridSpec, workers: int, plugin_files: Sequence[Path]) -> Executor:
    return LocalExecutor(directory, workers, plugin_files, time_limit=3600 * grid.shards.time_limit)


def _execute(
    schedule: Schedule,
    executor: Executor,
    watch: EndWatch,
    note: Callable[[Outcome | Notice], None],
    show: Callable[[Schedule], None],
) -> Ending | None:
    """Run a schedule. Return what ended it before its work was done.

    Parameters
    ----------
    schedule : Schedule
    executor : Executor
    watch : EndWatch
    note : callable
        Called with each outcome and notice.
    show : callable
        Called after each of them, and while nothing happens.
    """
    ending: Ending | None = None
    with closing(executor.run(schedule)) as events:  # Closing it ends the workers.
        for event in events:
            ending = watch.ending
            # A signal to all processes lets shards fail that have no fault.
            if isinstance(event, Notice) or (event is not None and (ending is None or event.failure is None)):
                note(event)
            show(schedule)
            if ending is not None:
                break
    return ending
