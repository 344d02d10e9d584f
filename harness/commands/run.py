"""``prmcal run``: run a grid and report what was done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from prmcal.harness.execution.run import run_grid
from prmcal.harness.machine.gpus import default_workers
from prmcal.harness.planning.grid import GridSpec

__all__ = ["run_and_report"]

_FAILED, _INTERRUPTED = 2, 130


def run_and_report(grid: GridSpec, directory: Path, workers: int | None, plugin_files: Sequence[Path]) -> int:
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

    Returns
    -------
    int
        The exit code: 0, 2 if cells failed, or 130 after Ctrl-C.

    Raises
    ------
    PrmcalError
        If the run cannot start or continue.
    """
    try:
        summary = run_grid(grid, directory, workers or default_workers(grid), plugin_files)
    except KeyboardInterrupt:
        typer.echo("Interrupted. Finished work is kept. To continue, run the same command again.", err=True)
        return _INTERRUPTED
    typer.echo(
        f"{summary.cells} cells in {directory}: {summary.computed} shards computed, {summary.reused} reused, "
        f"{summary.failed_cells} cells failed.",
        err=True,
    )
    for reason in summary.reasons:
        typer.echo(f"prmcal: error: {reason}", err=True)
    return _FAILED if summary.failed_cells else 0
