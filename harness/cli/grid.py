"""Commands that run a grid: plan, run, slurm, status."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prmcal.harness.cli.app import app
from prmcal.harness.cli.cluster import (
    AddressOption,
    ExecutorOption,
    NodeCacheOption,
    SharedFolderOption,
    cluster_settings,
)
from prmcal.harness.cli.exit_codes import ExitCode
from prmcal.harness.cli.options import (
    GridArgument,
    LimitOption,
    OnlyOption,
    OutOption,
    PluginOption,
    RunArgument,
    names_by_kind,
    read,
)
from prmcal.harness.planning.grid_file.shipped import find_grid

if TYPE_CHECKING:
    from prmcal.harness.execution.run import RunSummary

__all__: list[str] = []


@app.command()
def plan(
    grid: GridArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="An output folder: its finished work is counted as done.",
        ),
    ] = None,
    only: OnlyOption = None,
    limit: LimitOption = None,
    plugin: PluginOption = None,
) -> None:
    """Show the jobs of a grid and what they cost.

    The costs are samples, tokens, time and disk space. No model is loaded and nothing is downloaded.
    """
    from prmcal.harness.commands.grid.plan import render_plan

    typer.echo(render_plan(read(grid, limit, plugin), out, names_by_kind(only)))


@app.command()
def run(
    grid: GridArgument,
    out: OutOption,
    only: OnlyOption = None,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Run only what the cells need that failed in the latest run of DIR.",
        ),
    ] = False,
    limit: LimitOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of worker processes, which share the GPUs evenly. Default: one for each GPU or core.",
        ),
    ] = None,
    executor: ExecutorOption = "local",
    address: AddressOption = None,
    shared_folder: SharedFolderOption = None,
    node_cache: NodeCacheOption = None,
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
    max_hours: Annotated[
        float | None,
        typer.Option(
            "--max-hours",
            metavar="HOURS",
            help="End the run after this time, even in the middle of a shard: 11.5 is eleven and a half hours.",
        ),
    ] = None,
    on_finish: Annotated[
        str,
        typer.Option(
            "--on-finish",
            metavar="COMMAND",
            help="A shell command for the end of the run, however it comes. Its environment has PRMCAL_RUN (DIR), "
            "PRMCAL_STATE (done, failed, interrupted or ended), PRMCAL_CELLS_DONE and PRMCAL_CELLS_FAILED. It may take "
            "ten minutes.",
        ),
    ] = "",
    drop_cells: Annotated[
        bool,
        typer.Option(
            "--drop-cells",
            help="Delete finished cells that the grid no longer has, or that have changed and that --only or "
            "--retry-failed leave out. Without this option, the run refuses to start if there are any.",
        ),
    ] = False,
) -> None:
    """Run a grid.

    To continue an interrupted run, run the same command again: finished work is kept. Ctrl-C, SIGTERM and SIGHUP end
    the run at once and record what is finished.
    """
    from prmcal.harness.commands.grid.run import interruption, run_and_report

    try:
        summary = run_and_report(
            read(grid, limit, plugin),
            out,
            workers,
            plugin or [],
            quiet,
            log_file,
            cluster=cluster_settings(executor, address, workers, shared_folder, node_cache),
            only=names_by_kind(only),
            retry_failed=retry_failed,
            max_hours=max_hours,
            on_finish=on_finish,
            drop_cells=drop_cells,
        )
    except KeyboardInterrupt:
        typer.echo(interruption("SIGINT"), err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    raise typer.Exit(_exit_code(summary))


def _exit_code(summary: RunSummary) -> ExitCode:
    match summary.ending:
        case "max-hours":
            return ExitCode.TIME_OVER
        case "SIGHUP":
            return ExitCode.HUNG_UP
        case "SIGINT":
            return ExitCode.INTERRUPTED
        case "SIGTERM":
            return ExitCode.TERMINATED
    return ExitCode.FAILED_CELLS if summary.failed_cells else ExitCode.DONE


@app.command()
def slurm(
    grid: GridArgument,
    run_options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN_OPTION",
            help="Options of `prmcal run`, after --, such as -- --only llm=weak --quiet.",
        ),
    ] = None,
    *,
    out: OutOption,
    nodes: Annotated[
        int, typer.Option(metavar="N", min=1, help="The number of nodes. On several, Ray connects them.")
    ] = 1,
    gpus_per_node: Annotated[
        int | None, typer.Option("--gpus-per-node", metavar="G", min=1, help="GPUs of each node.")
    ] = None,
    cpus_per_task: Annotated[
        int | None, typer.Option("--cpus-per-task", metavar="C", min=1, help="Cores of each node.")
    ] = None,
    time: Annotated[
        str, typer.Option(metavar="HH:MM:SS", help="The time limit of the job, in any form that Slurm takes.")
    ] = "",
    partition: Annotated[str, typer.Option(metavar="NAME", help="The partition.")] = "",
) -> None:
    """Print a script for Slurm that runs a grid.

    Save it in a file and submit it with sbatch. Submit the same file again to continue the run after its time limit.
    """
    from prmcal.harness.commands.grid.slurm import Allocation, render_script
    from prmcal.harness.planning.grid_file.read import read_grid

    name = read_grid(find_grid(grid)).name
    allocation = Allocation(nodes, gpus_per_node, cpus_per_task, time, partition)
    arguments = [grid, "--out", str(out), *(run_options or [])]
    # A wrong option is an error here, and not hours later on a node.
    commands: Any = typer.main.get_command(app)
    commands.commands["run"].make_context("prmcal run", list(arguments))
    typer.echo(render_script(name, arguments, allocation), nl=False)


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
    from prmcal.harness.commands.grid.status import read_status, render_status

    found = read_status(directory)
    typer.echo(render_status(found, output_format))
    raise typer.Exit(ExitCode.FAILED_CELLS if found.failures else ExitCode.DONE)
