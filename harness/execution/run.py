"""Run a grid: lock the folder, plan, compute the missing shards, record the results. Or do a part of this again."""

import secrets
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TextIO

from prmcal.db.reader import folder_in_the_way
from prmcal.db.run_folder import FAILURES_FILE, LOG_FILE, RECORD_FILE
from prmcal.db.writer import Writer
from prmcal.harness.execution.earlier import earlier_texts
from prmcal.harness.execution.ending import EndWatch, RunSummary, read_failures
from prmcal.harness.execution.events import Notice
from prmcal.harness.execution.local import Executor, LocalExecutor
from prmcal.harness.execution.machine import run_environment
from prmcal.harness.execution.progress import RunProgress
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Only
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.preflight import pair_problems, plan_problems
from prmcal.harness.planning.saved import existing_plan, write_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import storage_errors
from prmcal.harness.storage.written import fresh_folder


def run_grid(
    grid: GridSpec,
    directory: Path,
    workers: int,
    plugin_files: Sequence[Path] = (),
    executor: Executor | None = None,
    stream: TextIO | None = None,
    *,
    only: Only | None = None,
    drop_cells: bool = False,
) -> RunSummary:
    """Run a grid in a folder. Finished shards in the folder are reused.

    The first SIGINT, SIGTERM or SIGHUP ends the run: workers stop at once, and finished shards are recorded.

    Raises a GridError if no cell has the names. Raises a RunError if the folder is locked or belongs to another grid,
    or finished cells would be deleted without `drop_cells`: the grid does not have them, or they have changed and the
    run is not asked for them. Raises a StorageError if the disk is full. Finished shards are kept.

    Plugin files must be loaded already, and every worker loads them. By default, this machine runs the shards, with
    this number of worker processes. Progress is written to `stream`, by default standard error, and the log to
    ``run.log`` in the folder. With `only`, only work for cells with these names is run, and other cells stay as they
    are; see :meth:`Plan.cells_with`. With `drop_cells`, finished cells that the run would not compute again are deleted
    from the database, if the grid does not have them or they have changed. Their artifacts stay.
    """
    watch, folder, log = EndWatch(), RunFolder(directory), directory / LOG_FILE
    here = executor is None
    executor = executor or LocalExecutor(directory, workers, plugin_files)
    plan = build_plan(grid)
    part = plan.part(plan.cells_with(only or {}))  # A wrong name is an error before the folder is touched.
    with folder.lock():
        folder.claim(grid.name)
        record = _record(grid, plugin_files, workers, only or {}, executor)
        # The record comes first, so that a run that is killed at its beginning can be continued.
        if not (directory / RECORD_FILE).exists() and not folder.database.exists():
            folder.write_record(record)
        writer = Writer(folder.database, folder.published, reads=directory)
        done = folder.store.manifests(shard.ref for shard in plan.shards())
        recorder = Recorder(writer, folder, plan, folder.store, record, done)
        dropped = recorder.lost_cells(part, drop_cells)
        folder.store.remove_leftovers()
        if recorder.is_current():
            return recorder.summary(part, watch.seconds, log)
        write_plan(directory, record.grid, plan)
        folder.write_record(record)
        unfinished = [shard for shard in part.shards() if shard.ref not in done]
        schedule = Schedule(part, done, earlier_texts(folder.store, plan, unfinished))
        progress = RunProgress(part, done, workers, log, stream)
        if damaged := tuple(str(path) for shard in unfinished if (path := folder.store.folder(shard.ref)).exists()):
            line = f"Damaged artifacts are computed again: {len(damaged):,}. {log} names them."
            progress.note(Notice(line, damaged, urgent=True))
        if plan.repeated:
            progress.write(f"Questions with a text that occurs before, which is sampled once: {plan.repeated:,}.")
        if dropped:
            line = f"Finished cells of an earlier form of the grid are deleted: {len(dropped):,}."
            progress.write(line, dropped)
        with progress, watch:
            with recorder.recording(read_failures(directory), again={shard.ref for shard in part.shards()}):
                # The nodes of a cluster may have other packages, and reach other servers.
                models = plan_problems(grid, plan, schedule.untried) if here else ()
                problems = chain(pair_problems(part, done), models)
                with closing(executor.run(schedule)) as events:  # Closing it ends the workers.
                    for event in chain(schedule.refused(problems), events):
                        ending = watch.ending
                        # A signal to all processes lets shards fail that have no fault.
                        if isinstance(event, Notice):
                            progress.note(event)
                        elif event is not None and (ending is None or event.failure is None):
                            progress.note(event)
                            recorder.note(event)
                        progress.update(schedule)
                        if ending is not None:
                            progress.write(f"The run was ended by {ending}. Finished work is kept.")
                            recorder.ending = ending
                            break
            progress.write(f"The run took {watch.seconds:,.1f} s.")
    return recorder.summary(part, watch.seconds, log)


def _record(grid: GridSpec, plugin_files: Sequence[Path], workers: int, only: Only, executor: Executor) -> RunRecord:
    """Return the record of a run that begins now. Other processes read it to learn what the run does."""
    environment = run_environment()
    if executor.on_gpus:  # Those of a cluster are not on this machine.
        environment["hardware"]["gpus"] = environment["hardware"]["gpus"] or ["GPUs of the cluster"]
    data, files = grid.model_dump(mode="json"), [str(path.resolve()) for path in plugin_files]
    run_id, started_at = secrets.token_hex(6), datetime.now(UTC).isoformat(timespec="seconds")
    names_by_kind = {kind: list(names) for kind, names in only.items()}
    return RunRecord(data, files, run_id, started_at, workers, names_by_kind, environment)


def rebuild_database(directory: Path) -> int:
    """Fill a new database of a folder from its artifacts, beside the old one. Return the number of cells.

    Readers have the old one until the new one is complete, or if the process is killed.

    Raises a RunError if no grid was run in the folder, or one is running. Raises a StorageError or DamagedDatabaseError
    if the database cannot be replaced.
    """
    folder = RunFolder(directory)
    record = folder.record()
    for path in (folder.database, folder.published):
        if path.is_dir():
            raise folder_in_the_way(path)
    with folder.lock(), storage_errors(directory):
        plan = existing_plan(folder)
        with fresh_folder(folder.database) as aside:
            fresh = RunFolder(aside)
            writer = Writer(fresh.database, fresh.published, reads=directory)
            done = folder.store.manifests(shard.ref for shard in plan.shards())
            with Recorder(writer, fresh, plan, folder.store, record, done).recording(read_failures(directory)):
                pass  # Nothing is computed.
            folder.database.with_name(folder.database.name + ".wal").unlink(missing_ok=True)
            records = [path for name in (FAILURES_FILE, RECORD_FILE) if (path := aside / name).exists()]
            for path in (*records, fresh.database, fresh.published):
                path.replace(directory / path.name)
    return len(plan.cells)
