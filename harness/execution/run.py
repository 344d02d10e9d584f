"""Run a grid: lock the folder, plan, compute the missing shards, record the results. Or do a part of this again."""

from __future__ import annotations

import math
import secrets
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

from prmcal.db.run_folder import LOG_FILE
from prmcal.db.text.formats import counted
from prmcal.db.writer import Writer
from prmcal.errors import PrmcalError, RunError, StorageError
from prmcal.harness.execution.ending import Ending, EndWatch, RunSummary, failed_cells, grouped, read_failures
from prmcal.harness.execution.local import LocalExecutor, run_schedule
from prmcal.harness.execution.machine import check_workers, run_environment, visible_gpus
from prmcal.harness.execution.progress import Progress, RunLog
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.execution.schedule import Executor, Notice, Outcome, Schedule
from prmcal.harness.planning.costs import CostModel, seconds_left
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Only, Plan, asked_part, cells_to_retry, cells_with, lost_cells
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import grid_of
from prmcal.harness.planning.saved import existing_plan, write_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import Store


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
        folder.claim(record.grid["name"])
        part = asked_part(plan, record)
        if not part.cells:
            return RunSummary(0, 0, 0, 0, 0, len(plan.cells), (), time.monotonic() - begin, log_path)
        finished = (
            Writer(folder.database, folder.published).finished_cells() if folder.database.exists() else {}
        )
        dropped = lost_cells(plan, part, finished)
        if dropped and not drop_cells:
            raise RunError(_refusal(directory, dropped, {cell.cell_id for cell in plan.cells}))
        store = Store(directory)
        store.remove_leftovers()
        done = store.manifests(shard.ref for shard in plan.shards())
        reused = len({shard.ref for shard in part.shards()}.intersection(done))
        cost = CostModel(plan, store.all_manifests(known=done), on_gpus=bool(visible_gpus()))
        failures = read_failures(directory)
        write_plan(directory, record.grid, plan, cost.model_seconds)
        folder.write_record(record)
        schedule = Schedule(part, done)
        log = RunLog(log_path, part)
        log.begin(reused, workers)
        if dropped:
            line = f"Finished cells of an earlier form of the grid are deleted: {len(dropped):,}."
            log.write(line, dropped)
        progress = Progress(directory, part, reused, partial(_seconds_left, cost, workers), stream)

        def note(event: Outcome | Notice) -> None:
            if isinstance(event, Notice):
                log.write(event.line, event.details)
                return
            log.note(event)
            if event.fatal:
                raise StorageError(event.failure.reason if event.failure else "")
            progress.count(event)
            if event.manifest is not None:
                cost.learn(event.ref, event.manifest)
            recorder.note(event)

        recorder = Recorder(folder, plan, store, record)
        ending: Ending | None
        try:
            with EndWatch(deadline) as watch:
                recorder.begin(done)
                recorder.note_failures(failures, but={shard.ref for shard in part.shards()})
                try:
                    limit = 3600 * grid.shards.time_limit
                    executor = executor or LocalExecutor(directory, workers, plugin_files, limit)
                    ending = run_schedule(schedule, executor, watch, note, progress.update)
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
        done_cells=sum(recorder.manifests.keys() >= set(cell.job.refs) for cell in part.cells),
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


def _refusal(directory: Path, lost: Sequence[str], planned: Collection[str]) -> str:
    if lost[0] in planned:
        why = "whose plugins or settings changed, and for which it is not asked"
        instead = "Run the whole grid"
    else:
        why, instead = "which this grid does not have", "Choose another --out folder"
    return (
        f"The run would delete {counted(len(lost), 'finished cell')} of {directory}, such as '{lost[0]}', {why}. "
        f"Nothing was changed. {instead}, or set --drop-cells to delete them from the database; their artifacts stay."
    )


def _seconds_left(cost: CostModel, workers: int, schedule: Schedule) -> float | None:
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
    done = store.manifests(shard.ref for shard in plan.shards())
    schedule = Schedule(plan, done)
    cost = CostModel(plan, store.all_manifests(known=done), on_gpus=bool(visible_gpus()))
    begin(
        sum(round(cost.samples(each)) for each in schedule.unfinished), _seconds_left(cost, workers, schedule)
    )
    progress = Progress(folder.directory, plan, len(done), partial(_seconds_left, cost, workers), stream)
    files = [Path(file) for file in record.plugin_files]
    executor = LocalExecutor(folder.directory, workers, files, 3600 * grid.shards.time_limit)

    def note(event: Outcome | Notice) -> None:
        if isinstance(event, Outcome):
            if event.manifest is None:
                failed = StorageError if event.fatal else PrmcalError
                raise failed(event.failure.reason if event.failure else "")
            cost.learn(event.ref, event.manifest)
            progress.count(event)

    try:
        with EndWatch() as watch:
            ending = run_schedule(schedule, executor, watch, note, progress.update)
    finally:
        progress.close()
    if ending is not None:
        signal.raise_signal(signal.Signals[ending])  # Now that the workers have ended.


def rebuild_database(directory: Path) -> int:
    """Delete the database of a folder and fill a new one from its artifacts. Return the number of cells.

    Parameters
    ----------
    directory : Path
        The output folder of a run.

    Raises
    ------
    RunError
        If no grid was run in the folder, or one is running.
    DatabaseVersionError
        If a newer version of prmcal wrote the database. It stays then.
    StorageError
        If the database cannot be deleted.
    """
    folder = RunFolder(directory)
    record = folder.record()
    with folder.lock():
        folder.refuse_newer()
        plan = existing_plan(folder)
        store = Store(directory)
        failures = read_failures(directory)
        for database in (folder.database, folder.published):
            _remove(database)
            _remove(database.with_name(database.name + ".wal"))
        recorder = Recorder(folder, plan, store, record)
        recorder.begin(store.manifests(shard.ref for shard in plan.shards()))
        recorder.note_failures(failures)
        recorder.end()
    return len(plan.cells)


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"{file} cannot be deleted ({error.strerror or error}). Remove it, and run the same command again."
        ) from error
