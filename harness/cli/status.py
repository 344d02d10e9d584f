"""``prmcal status``: how far a run is. It reads only the run's folder, so it works at any time."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from prmcal.db.run_folder import LOG_FILE
from prmcal.db.text.formats import counted, duration
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.options import RunArgument, one_of, time_left
from prmcal.harness.cli.run import lines_on_failures
from prmcal.harness.execution.failures import FailureGroup, failed_cells, grouped, read_failures
from prmcal.harness.execution.machine import visible_gpus
from prmcal.harness.execution.progress import WorkerNow, read_crew
from prmcal.harness.merging.submissions.folder import is_merged
from prmcal.harness.planning.costs import CostModel, Work, remaining_work, seconds_left
from prmcal.harness.planning.plan import asked_part
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.harness.terminal.prose import wrapped
from prmcal.harness.terminal.tables import text_table

__all__ = ["Status", "read_status", "status"]


def status(
    directory: RunArgument,
    output_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="table or json.")
    ] = "table",
) -> None:
    """Show the progress of a run, the time left, and why cells failed.

    It also works during the run.
    """
    found = read_status(directory)
    one_of("--format", output_format, ("table", "json"))
    typer.echo(json.dumps(_plain(found), indent=1) if output_format == "json" else _text(found))
    raise typer.Exit(ExitCode.FAILED_CELLS if found.failures else ExitCode.DONE)


@dataclass(frozen=True)
class Status:
    """The state of a run.

    Attributes
    ----------
    directory : Path
    grid : str
        The name of the grid.
    running : bool
        Whether a run holds the folder's lock now.
    started_at : str
        Start of the latest run in UTC, in ISO format.
    workers : int
        Worker processes of the latest run.
    work : list of Work
        One entry for each kind of job.
    shards, done, failed : int
        All shards, the finished ones, and those that failed in the latest run, also because of another shard.
    cells, done_cells, failed_cells : int
        All lines of the leaderboards, the finished ones, and the failed ones.
    part : bool
        Whether the latest run was asked for a part of the cells, and all of them are finished.
    failures : tuple of FailureGroup
        Why cells failed, those with the same reason together.
    seconds_left : float or None
        Seconds until the end with this number of workers; None if it is not known.
    log : Path
        The log of the latest run.
    crew : tuple of WorkerNow
        What each worker of a running run does now.
    """

    directory: Path
    grid: str
    running: bool
    started_at: str
    workers: int
    work: list[Work]
    shards: int
    done: int
    failed: int
    cells: int
    done_cells: int
    failed_cells: int
    part: bool
    failures: tuple[FailureGroup, ...]
    seconds_left: float | None
    log: Path
    crew: tuple[WorkerNow, ...] = ()

    @property
    def state(self) -> str:
        """``running``, ``done``, ``failed`` (it ended, but cells failed), ``partial`` or ``interrupted``."""
        if self.running:
            return "running"
        if self.done == self.shards:
            return "done"
        if self.failures:
            return "failed"
        return "partial" if self.part else "interrupted"


def read_status(directory: Path) -> Status:
    """Read the state of the run in a folder.

    Raises
    ------
    RunError
        If no grid was run in the folder.
    """
    folder = RunFolder(directory)
    record = folder.record()
    plan = existing_plan(folder)
    past = Store(directory).all_manifests()
    done = {shard.ref: past[shard.ref] for shard in plan.shards() if shard.ref in past}
    cost = CostModel(plan, past, on_gpus=bool(visible_gpus()))
    failures = read_failures(directory)
    unfinished = [shard for shard in plan.shards() if shard.ref not in done]
    failed = [shard for shard in unfinished if shard.ref.key in failures]
    cells = failed_cells(plan, failures)
    finished = {cell.cell_id for cell in plan.cells if all(shard.ref in done for shard in cell.job.shards)}
    part = asked_part(plan, record)
    asked = {shard.ref for shard in part.shards()}
    return Status(
        directory=directory,
        grid=record.grid["name"],
        running=folder.running(),
        started_at=record.started_at,
        workers=record.workers,
        work=remaining_work(plan, done, cost),
        shards=len(plan.shards()),
        done=len(done),
        failed=len(failed),
        cells=len(plan.cells),
        done_cells=len(finished),
        failed_cells=len(cells),
        part=part is not plan and all(cell.cell_id in finished for cell in part.cells),
        failures=grouped(cells),
        seconds_left=seconds_left(
            [shard for shard in unfinished if shard.ref in asked and shard.ref.key not in failures],
            cost,
            record.workers,
        ),
        log=directory / (record.log or LOG_FILE),
        crew=tuple(read_crew(directory)) if folder.running() else (),
    )


def _plain(status: Status) -> dict[str, Any]:
    """Return the state of a run as JSON data, whose keys are stable.

    They are grid, directory, state, started_at (UTC), running_since (UTC, or null), workers, seconds_left (or null),
    log; shards (total, done, failed, left); cells (total, done, failed, pending); jobs (a list with kind, jobs, shards,
    done, worker_seconds_left); failures (a list with reason, cause, cells, advice); crew (a list with worker, job,
    seconds, tries, note; empty unless the state is "running").
    """
    return {
        "grid": status.grid,
        "directory": str(status.directory),
        "state": status.state,
        "started_at": status.started_at,
        "running_since": status.started_at if status.running else None,
        "workers": status.workers,
        "seconds_left": None if status.seconds_left is None else round(status.seconds_left, 1),
        "log": str(status.log),
        "shards": {
            "total": status.shards,
            "done": status.done,
            "failed": status.failed,
            "left": status.shards - status.done - status.failed,
        },
        "cells": {
            "total": status.cells,
            "done": status.done_cells,
            "failed": status.failed_cells,
            "pending": status.cells - status.done_cells - status.failed_cells,
        },
        "jobs": [
            {
                "kind": each.kind,
                "jobs": each.jobs,
                "shards": each.shards,
                "done": each.reused,
                "worker_seconds_left": None if each.seconds is None else round(each.seconds, 1),
            }
            for each in status.work
        ],
        "failures": [
            {
                "reason": group.failure.reason,
                "cause": group.failure.cause,
                "cells": list(group.cells),
                "advice": group.advice(status.log),
            }
            for group in status.failures
        ],
        "crew": [asdict(each) for each in status.crew],
    }


def _text(status: Status) -> str:
    began = datetime.fromisoformat(status.started_at)
    head = f"Grid '{status.grid}' in {status.directory}: {status.state}"
    if status.running:
        head += f" for {duration((datetime.now(UTC) - began).total_seconds())}"
    head += f", {_percent(status.done, status.shards)} ({status.done:,} of {counted(status.shards, 'shard')})"
    if status.running and status.seconds_left is not None:
        head += f", about {duration(status.seconds_left)} left"
    rows = [
        [
            each.kind.replace("_", " "),
            f"{each.reused}/{each.shards}",
            _percent(each.reused, each.shards),
            time_left(each),
        ]
        for each in status.work
    ]
    lines = [
        wrapped(f"{head}."),
        "",
        text_table(["jobs", "shards", "done", "worker time left"], rows),
        "",
        wrapped(
            f"{status.done_cells:,} of {counted(status.cells, 'cell')} done, {status.failed_cells:,} failed. "
            f"{_more(status)}"
        ),
    ]
    if status.crew:
        lines += ["", *(wrapped(str(each), hanging="  ") for each in status.crew)]
    if status.state == "interrupted":
        lines.append(wrapped("To continue, run the same command again. Finished work is kept."))
    if status.state == "partial":
        lines.append(
            wrapped(
                "The part that was asked for is finished. For the rest, leave out --only and --retry-failed."
            )
        )
    return "\n".join([*lines, *lines_on_failures(status.failures, status.log)])


def _more(status: Status) -> str:
    if is_merged(status.directory):
        return f"`prmcal leaderboard {status.directory}` shows which of them are not current or failed a verification."
    return f"Latest run started {status.started_at}. Log: {status.log}"


def _percent(part: int, whole: int) -> str:
    """Return a share in percent. It is 100% only if nothing is left."""
    return f"{int(100 * part / whole) if whole else 100}%"
