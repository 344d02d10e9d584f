"""Commands for grids: plan, run, status, rebuild, gc, doctor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from prmcal.harness.cli import complete
from prmcal.harness.cli.app import app
from prmcal.harness.cli.exit_codes import ExitCode
from prmcal.harness.cli.options import GridArgument, LimitOption, PluginOption, RunArgument, read

__all__: list[str] = []


@app.command()
def plan(
    grid: GridArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="An output folder: its finished work is counted as done."),
    ] = None,
    limit: LimitOption = None,
    plugin: PluginOption = None,
) -> None:
    """Show the jobs of a grid and what they cost.

    The costs are samples, tokens, time and disk space. No model is loaded and nothing is downloaded.
    """
    from prmcal.harness.commands.plan import render_plan

    typer.echo(render_plan(read(grid, limit, plugin), out))


@app.command()
def run(
    grid: GridArgument,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The output folder: artifacts and the database.")
    ],
    limit: LimitOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of worker processes, which share the GPUs evenly. Default: one for each GPU or core.",
        ),
    ] = None,
    plugin: PluginOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print failures only.")] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="FILE",
            help="The log: a line for each shard with its time, repeated requests, warnings and tracebacks. "
            "Default: run.log in DIR.",
        ),
    ] = None,
    drop_cells: Annotated[
        bool,
        typer.Option(
            "--drop-cells",
            help="Delete finished cells that the grid no longer has. Without this option, the run refuses to start "
            "if there are any.",
        ),
    ] = False,
) -> None:
    """Run a grid.

    To continue an interrupted run, run the same command again: finished work is kept.
    """
    from prmcal.harness.commands.run import run_and_report

    try:
        done = run_and_report(
            read(grid, limit, plugin), out, workers, plugin or [], quiet, log_file, drop_cells
        )
    except KeyboardInterrupt:
        typer.echo("Interrupted. Finished work is kept. To continue, run the same command again.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    raise typer.Exit(ExitCode.FAILED_CELLS if done.failed_cells else ExitCode.DONE)


@app.command()
def status(
    directory: RunArgument,
    output_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="table or json.")
    ] = "table",
) -> None:
    """Show the progress of a run, the time left, and why cells failed.

    It also works during the run.
    """
    from prmcal.harness.commands.status import read_status, render_status

    found = read_status(directory)
    typer.echo(render_status(found, output_format))
    raise typer.Exit(ExitCode.FAILED_CELLS if found.failures else ExitCode.DONE)


@app.command()
def rebuild(directory: RunArgument) -> None:
    """Rebuild the database from the artifacts."""
    from prmcal.harness.execution.rebuild import rebuild_database

    cells = rebuild_database(directory)
    typer.echo(f"Rebuilt the database of {directory}: {cells} cells.", err=True)


@app.command()
def gc(
    directory: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete what the grid of a run no longer needs.

    These are artifacts and checkpoints of earlier forms of the grid, and what killed runs left half written. The
    command says how much there is and asks. Without a terminal it deletes only with --yes.
    """
    from prmcal.harness.commands.gc import delete_unneeded

    def agreed() -> bool:
        return yes or typer.confirm("Delete these folders?")

    delete_unneeded(directory, typer.echo, agreed if yes or sys.stdin.isatty() else None)


@app.command()
def doctor(
    grid: Annotated[
        str | None,
        typer.Argument(
            metavar="GRID",
            help="A grid file (YAML), or the name of a shipped grid.",
            autocompletion=complete.grids,
        ),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Show what is installed and what a grid needs.

    It lists the packages, the hardware and the cached models. With GRID it also lists what the grid still needs.
    """
    from prmcal.harness.commands.doctor import grid_needs, machine_report

    typer.echo(machine_report())
    if grid is not None:
        needs, ready = grid_needs(read(grid, None, plugin))
        typer.echo(f"\n{needs}")
        if not ready:
            raise typer.Exit(ExitCode.FAILED_CHECKS)
