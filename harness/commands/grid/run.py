"""``prmcal run``: run a grid and report what was done."""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from prmcal.db.text.formats import counted, duration
from prmcal.harness.cluster.chosen import chosen_executor
from prmcal.harness.cluster.settings import ClusterSettings
from prmcal.harness.execution.ending import Ending
from prmcal.harness.execution.on_finish import run_on_finish
from prmcal.harness.execution.run import RunSummary, run_grid
from prmcal.harness.machine.gpus import default_workers
from prmcal.harness.planning.grid_file.grid import GridSpec
from prmcal.harness.planning.selection import Only
from prmcal.harness.scheduling.failures import FailureGroup
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal.prose import wrapped

__all__ = ["interruption", "run_and_report", "told_failures"]


def run_and_report(
    grid: GridSpec,
    directory: Path,
    workers: int | None,
    plugin_files: Sequence[Path],
    quiet: bool = False,
    log_file: Path | None = None,
    *,
    cluster: ClusterSettings | None = None,
    only: Only | None = None,
    retry_failed: bool = False,
    max_hours: float | None = None,
    on_finish: str = "",
    drop_cells: bool = False,
) -> RunSummary:
    """Run a grid and print a summary to standard error.

    Parameters
    ----------
    grid : GridSpec
    directory : Path
        The output folder.
    workers : int or None
        Worker processes; None for the default of this machine.
    plugin_files : sequence of Path
        The loaded plugin files.
    quiet : bool
        Whether to print failures only.
    log_file : Path, optional
        Where the log is written; by default into the output folder.
    cluster : ClusterSettings, optional
        For a run on a cluster.
    only, retry_failed, max_hours
        As in :func:`run_grid`.
    on_finish : str
        A shell command for the end of the run; empty for none.
    drop_cells : bool
        Whether finished cells that the grid no longer has are deleted.

    Raises
    ------
    PrmcalError
        If the run cannot start or continue.
    KeyboardInterrupt
        After Ctrl-C before the first shard, or after the second Ctrl-C.
    """
    stream = io.StringIO() if quiet else None
    with chosen_executor(grid, directory, plugin_files, cluster) as executor:
        count = workers or default_workers(grid) if executor is None else executor.workers
        where = "" if executor is None else f" on {counted(executor.nodes, 'node')} of a cluster"
        if not quiet:
            told = f"Running the grid '{grid.name}' in {directory} with {counted(count, 'worker')}{where}."
            _tell(wrapped(told))
        summary = run_grid(
            grid,
            directory,
            count,
            plugin_files,
            executor,
            stream=stream,
            log_file=log_file,
            only=only,
            retry_failed=retry_failed,
            max_hours=max_hours,
            on_finish=lambda summary: _finish(on_finish, directory, summary),
            drop_cells=drop_cells,
        )
    if not summary.cells:
        _tell(wrapped(f"No cell failed in the latest run in {directory}, so there is nothing to try again."))
        return summary
    if not quiet:
        _tell(wrapped(_done(summary)))
    if summary.failures:
        _tell("\n".join(told_failures(summary.failures, summary.log)))
    if summary.ending is not None:
        _tell(interruption(summary.ending))
    elif not quiet:
        _tell("\n".join(["", *_answer(directory), *_cut_off(directory), *_next(directory)]))
    return summary


def interruption(ending: Ending) -> str:
    """Say in one line what ended a run before its work was done, and how to continue."""
    causes = {"SIGINT": "Interrupted.", "max-hours": "The run has reached --max-hours."}
    cause = causes.get(ending, f"The run was ended by {ending}.")
    return f"{cause} Finished work is kept. To continue, run the same command again."


def _done(summary: RunSummary) -> str:
    text = (
        f"{summary.done_cells:,} of {counted(summary.cells, 'cell')} done in {duration(summary.seconds)}: "
        f"{counted(summary.computed, 'shard')} computed, {summary.reused:,} reused, "
        f"{counted(summary.failed_cells, 'cell')} failed. Log: {summary.log}"
    )
    if summary.cells < summary.grid_cells:
        text += f"\nThe grid has {summary.grid_cells:,} cells. To run all of them, leave out --only and --retry-failed."
    return text


def _finish(command: str, directory: Path, summary: RunSummary) -> None:
    problem = run_on_finish(command, directory, summary) if command else ""
    if problem:
        _tell(wrapped(f"prmcal: warning: {problem}"))


def told_failures(failures: Sequence[FailureGroup], log: Path) -> list[str]:
    """Return lines that say what failed, how often, and what to do."""
    lines = []
    for group in failures:
        lines.append("")
        head = f"prmcal: error: {counted(len(group.cells), 'cell')} failed: {group.failure.reason}"
        lines.append(wrapped(head, hanging="  "))
        shown = group.cells[:2]
        more = len(group.cells) - len(shown)
        lines.append(
            wrapped(f"Cells: {', '.join(shown)}{f' and {more:,} more' if more else ''}.", indent="  ")
        )
        lines.append(wrapped(f"What to do: {group.advice(log)}", indent="  "))
    return lines


def _answer(directory: Path) -> list[str]:
    """Return the findings of the run, a line for each."""
    from prmcal.db.overview.query import overview
    from prmcal.db.text.overview import tiles

    found = overview(RunFolder(directory).results())
    if not found.ranking:
        return []
    return [
        wrapped(
            f"{each.title}: {each.figure}. {each.detail[:1].upper()}{each.detail[1:].rstrip('.')}.",
            hanging="  ",
        )
        for each in tiles(found)
    ]


def _cut_off(directory: Path) -> list[str]:
    """Return a warning for each LLM some of whose trajectories were cut off inside a thought."""
    from prmcal.db.queries.trajectories.thoughts import cut_off_thoughts

    return [
        wrapped(
            f"prmcal: warning: {each.cut_off / each.trajectories:.1%} of the trajectories of the LLM '{each.llm}' "
            f"({each.cut_off:,} of {each.trajectories:,}) were cut off inside a thought, so they have no answer. Raise "
            "'sampling.max_tokens' in the grid file.",
            hanging="  ",
        )
        for each in cut_off_thoughts(RunFolder(directory).results())
    ]


def _next(directory: Path) -> list[str]:
    folder = shlex.quote(str(directory))
    return ["", "Next:", f"  prmcal leaderboard {folder}", f"  prmcal dashboard {folder}"]


def _tell(text: str) -> None:
    with suppress(OSError):  # The terminal was closed. The run goes on to its end.
        typer.echo(text, err=True)
