"""``prmcal run``: run a grid and report what was done."""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from prmcal.db.text.formats import counted, duration
from prmcal.harness.execution.failures import FailureGroup
from prmcal.harness.execution.run import RunSummary, run_grid
from prmcal.harness.machine.gpus import default_workers
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal.prose import wrapped

__all__ = ["run_and_report", "told_failures"]


def run_and_report(
    grid: GridSpec,
    directory: Path,
    workers: int | None,
    plugin_files: Sequence[Path],
    quiet: bool = False,
    log_file: Path | None = None,
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

    Raises
    ------
    PrmcalError
        If the run cannot start or continue.
    KeyboardInterrupt
        After Ctrl-C.
    """
    count = workers or default_workers(grid)
    stream = io.StringIO() if quiet else None
    if not quiet:
        _tell(wrapped(f"Running the grid '{grid.name}' in {directory} with {counted(count, 'worker')}."))
    summary = run_grid(grid, directory, count, plugin_files, stream=stream, log_file=log_file)
    if not quiet:
        done = summary.cells - summary.failed_cells
        line = (
            f"{done:,} of {counted(summary.cells, 'cell')} done in {duration(summary.seconds)}: "
            f"{counted(summary.computed, 'shard')} computed, {summary.reused:,} reused, "
            f"{counted(summary.failed_cells, 'cell')} failed. Log: {summary.log}"
        )
        _tell(wrapped(line))
    if summary.failures:
        _tell("\n".join(told_failures(summary.failures, summary.log)))
    if not quiet:
        _tell("\n".join(["", *_answer(directory), *_next(directory)]))
    return summary


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
    return [wrapped(f"{each.title}: {each.figure}. {each.detail}.", hanging="  ") for each in tiles(found)]


def _next(directory: Path) -> list[str]:
    folder = shlex.quote(str(directory))
    return ["", "Next:", f"  prmcal leaderboard {folder}", f"  prmcal dashboard {folder}"]


def _tell(text: str) -> None:
    typer.echo(text, err=True)
