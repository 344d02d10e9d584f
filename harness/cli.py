"""The command line: ``prmcal``. Every command imports what it needs when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["app", "main"]

app = typer.Typer(
    name="prmcal",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Measure and repair the calibration of process reward models, and show what it buys.",
)

GridArgument = Annotated[Path, typer.Argument(metavar="GRID", help="A grid file (YAML).")]
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a run.")]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="A Python file that registers plugins; repeatable."),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Only the first N questions of every data set.")
]


@app.command()
def plan(
    grid: GridArgument,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Count what this folder holds as done.")
    ] = None,
    limit: LimitOption = None,
    plugin: PluginOption = None,
) -> None:
    """Show the jobs of a grid, what is reused, and what is left: samples, tokens, time. Needs no model and no hub."""
    from prmcal.harness.commands.plan import render_plan
    from prmcal.harness.costs.disk import space_needed
    from prmcal.harness.costs.estimate import CostModel, remaining_work
    from prmcal.harness.costs.gpu_hours import model_costs
    from prmcal.harness.machine.gpus import default_workers
    from prmcal.harness.planning.planner import build_plan
    from prmcal.harness.storage.store import Store

    spec = _read(grid, limit, plugin)
    planned = build_plan(spec, stand_ins=True)
    store = Store(out) if out else None
    past = store.all_manifests() if store else {}
    done = {shard.ref: past[shard.ref] for shard in planned.shards() if shard.ref in past}
    cost = CostModel(planned, past)
    work = remaining_work(planned, done, cost)
    models, space = model_costs(planned, done), space_needed(planned, done)
    typer.echo(render_plan(planned, work, default_workers(spec), models, space))


@app.command()
def run(
    grid: GridArgument,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where artifacts and the database go.")],
    limit: LimitOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Worker processes, which share the GPUs evenly; by default one a GPU, or one a core."
        ),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Run a grid. Run it again after an interruption: finished work is kept."""
    from prmcal.harness.execution.run import run_grid
    from prmcal.harness.machine.gpus import default_workers

    spec = _read(grid, limit, plugin)
    try:
        summary = run_grid(spec, out, workers or default_workers(spec), plugin or [])
    except KeyboardInterrupt:
        typer.echo("Interrupted. Finished work is kept: run the same command to go on.", err=True)
        raise typer.Exit(130) from None
    typer.echo(
        f"{summary.cells} cells in {out}: {summary.computed} shards computed, {summary.reused} reused, "
        f"{summary.failed_cells} cells failed.",
        err=True,
    )
    for reason in summary.reasons:
        typer.echo(f"prmcal: error: {reason}", err=True)
    if summary.failed_cells:
        raise typer.Exit(2)


@app.command()
def status(directory: FolderArgument) -> None:
    """Show how far a run is, while it runs or after."""
    from prmcal.harness.commands.render import render_status
    from prmcal.harness.commands.status import read_status

    typer.echo(render_status(read_status(directory)))


@app.command()
def leaderboard(
    directory: FolderArgument,
    table: Annotated[str, typer.Option(help="calibration, scaling or costs.")] = "calibration",
    output_format: Annotated[str, typer.Option("--format", help="table, json, csv or markdown.")] = "table",
) -> None:
    """Print a leaderboard: every value with its 95% interval."""
    from prmcal.harness.commands.render import render_leaderboard

    typer.echo(render_leaderboard(directory, table, output_format), nl=False)


@app.command()
def show(
    cell: Annotated[str, typer.Argument(metavar="CELL", help="A cell id, as the leaderboard prints it.")],
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The --out folder of a run.")
    ] = Path("runs/nano"),
) -> None:
    """Show a cell with its provenance: results, jobs, keys, seeds, versions, trajectories."""
    from prmcal.harness.commands.render import render_cell

    typer.echo(render_cell(directory, cell), nl=False)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A cell id, as the leaderboard prints it.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another cell of the same data set.")],
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The --out folder of a run.")
    ] = Path("runs/nano"),
    metric: Annotated[str | None, typer.Option(help="This metric only.")] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, json, csv or markdown.")] = "table",
) -> None:
    """Compare two cells over the same questions: differences with 95% intervals, and which are real."""
    from prmcal.harness.commands.compare import render_comparison

    typer.echo(render_comparison(directory, first, second, metric, output_format), nl=False)


@app.command()
def report(
    directory: FolderArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="REPORT", help="The report's folder: new, empty, or an earlier report."
        ),
    ],
) -> None:
    """Write tables and figures as Markdown, CSV, LaTeX, PNG and PDF, from the database."""
    from prmcal.harness.report import write_report

    files = write_report(directory, out)
    typer.echo(f"{len(files)} files in {out}: start with {out / 'README.md'}.", err=True)


@app.command()
def export(
    directory: FolderArgument,
    html: Annotated[
        Path,
        typer.Option("--html", metavar="SITE", help="The site's folder: new, empty, or an earlier site."),
    ],
) -> None:
    """Write the leaderboards as a static site that needs no server, such as for a GitHub page."""
    from prmcal.harness.site import write_site

    files = write_site(directory, html)
    typer.echo(f"{len(files)} files in {html}: open {html / 'index.html'}.", err=True)


@app.command()
def rebuild(directory: FolderArgument) -> None:
    """Build the database anew from the artifacts."""
    from prmcal.harness.execution.rebuild import rebuild_database

    cells = rebuild_database(directory)
    typer.echo(f"The database of {directory} was built anew: {cells} cells.", err=True)


@app.command(name="export-prm")
def export_prm(
    cell: Annotated[str, typer.Argument(metavar="CELL", help="A cell of the calibrator quantile-lora.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="The checkpoint's folder: new or empty.")
    ],
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The --out folder of a run.")
    ] = Path("runs/nano"),
) -> None:
    """Write a calibrated PRM as a checkpoint of its own, for transformers and vLLM."""
    from prmcal.harness.commands.export_prm import export_calibrated_prm

    export_calibrated_prm(directory, cell, out)
    typer.echo(f"The calibrated PRM is in {out}: see {out / 'README.md'}.", err=True)


@app.command(name="export-success")
def export_success_rates(
    directory: FolderArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Ends in .jsonl, .json or .parquet.")],
) -> None:
    """Write all prefixes of a run with their success rates, in the form of the published calibration set."""
    from prmcal.harness.commands.published import export_success

    typer.echo(f"{export_success(directory, out):,} prefixes in {out}.", err=True)


@app.command(name="import-first-pass")
def import_first_passes(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="inference_chunk_*.json, in their order.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="RECORDING", help="The recording (JSON lines).")],
    rewards: Annotated[
        Path | None, typer.Option("--rewards", metavar="NPY", help="Rewards of shape (questions, samples).")
    ] = None,
) -> None:
    """Make a recording of published solutions and rewards, for a grid like grids/recorded.yaml."""
    from prmcal.harness.commands.published import import_first_pass

    typer.echo(f"{import_first_pass(files, out, rewards):,} questions in {out}.", err=True)


@app.command(name="list")
def list_plugins(
    kind: Annotated[str | None, typer.Argument(help="llm, prm, calibrator, dataset or strategy.")] = None,
    plugin: PluginOption = None,
) -> None:
    """List the registered plugins."""
    from prmcal.harness.commands.plugins import plugin_listing

    _load_plugins(plugin)
    typer.echo(plugin_listing(kind))


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="A plugin's name, or a Python file that registers plugins.")],
    kind: Annotated[
        str | None, typer.Option(help="llm, prm, calibrator, dataset or strategy, where a name has several.")
    ] = None,
    argument: Annotated[
        list[str] | None,
        typer.Option("--argument", "-a", metavar="KEY=VALUE", help="A constructor argument; repeatable."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="FOLDER",
            help="The published weights of a PRM: gives it the published rewards?",
        ),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Run the conformance checks on a plugin; on published weights also against what their authors publish."""
    from prmcal.harness.commands.plugins import check_plugins

    _load_plugins(plugin)
    report, passed = check_plugins(name, kind, argument or [], weights)
    typer.echo(report)
    if not passed:
        raise typer.Exit(2)


@app.command()
def doctor(
    grid: Annotated[
        Path | None, typer.Argument(metavar="[GRID]", help="A grid file: what it still needs here.")
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Show what is installed, the GPUs, the cached models, and what a grid still needs."""
    from prmcal.harness.commands.doctor import grid_needs, machine_report

    typer.echo(machine_report())
    if grid is not None:
        needs, ready = grid_needs(_read(grid, None, plugin))
        typer.echo(f"\n{needs}")
        if not ready:
            raise typer.Exit(2)


@app.command()
def dashboard(
    directory: FolderArgument,
    port: Annotated[int, typer.Option(help="The port on this machine.")] = 8501,
    headless: Annotated[bool, typer.Option("--headless", help="Do not open a browser.")] = False,
) -> None:
    """Open the leaderboard in a browser."""
    import subprocess

    command = [sys.executable, "-P", "-m", "prmcal.dashboard", str(directory), "--port", str(port)]
    raise typer.Exit(
        subprocess.run([*command, *(["--headless"] if headless else [])], check=False).returncode
    )


def main() -> None:
    """Entry point: errors that the user can act on become one line and exit code 2."""
    from prmcal.errors import PrmcalError

    try:
        app()
    except PrmcalError as error:
        typer.echo(f"prmcal: error: {' '.join(str(error).split())}", err=True)
        sys.exit(2)


def _load_plugins(files: list[Path] | None) -> None:
    if files:
        from prmcal.registry.plugins import load_plugin_file

        for file in files:
            load_plugin_file(file)


def _read(grid: Path, limit: int | None, plugin: list[Path] | None) -> Any:
    from prmcal.harness.planning.grid import read_grid

    _load_plugins(plugin)
    return read_grid(grid).limited(limit)


if __name__ == "__main__":
    main()
