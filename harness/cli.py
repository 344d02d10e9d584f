"""The command line: ``prmcal``.

This module holds the options of every command. What a command does belongs in `prmcal.harness.commands`, in the module
with the command's name. That module is imported when the command runs, so ``prmcal --help`` loads neither torch nor
pandas.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prmcal import __version__
from prmcal.errors import PrmcalError
from prmcal.harness.planning.shipped import find_grid, shipped_grids

if TYPE_CHECKING:
    from prmcal.harness.planning.grid import GridSpec

__all__ = ["app", "main"]

app = typer.Typer(
    name="prmcal",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

GridArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRID",
        help=f"A grid file (YAML), or the name of a shipped grid: {', '.join(shipped_grids())}.",
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The output folder of a run.")]
RunOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The output folder of a run.")]
CellArgument = Annotated[str, typer.Argument(metavar="CELL", help="A cell id, as the leaderboard shows it.")]
FormatOption = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="table, json, csv or markdown.")
]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="A Python file that registers plugins; repeatable."),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Use only the first N questions of every data set."),
]
DEFAULT_RUN = Path("runs/nano")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"prmcal {__version__}")
        raise typer.Exit


@app.callback()
def prmcal(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Measure and repair the calibration of process reward models, and see what calibration gains."""


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

    typer.echo(render_plan(_read(grid, limit, plugin), out))


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
) -> None:
    """Run a grid.

    To continue an interrupted run, run the same command again: finished work is kept.
    """
    from prmcal.harness.commands.run import run_and_report

    raise typer.Exit(run_and_report(_read(grid, limit, plugin), out, workers, plugin or []))


@app.command()
def status(directory: RunArgument) -> None:
    """Show the progress of a run.

    It also works during the run.
    """
    from prmcal.harness.commands.status import render_status

    typer.echo(render_status(directory))


@app.command()
def leaderboard(
    directory: RunArgument,
    table: Annotated[
        str, typer.Option(metavar="TABLE", help="calibration, scaling or costs.")
    ] = "calibration",
    output_format: FormatOption = "table",
) -> None:
    """Print a leaderboard.

    Every value has a 95% interval.
    """
    from prmcal.harness.commands.leaderboard import render_leaderboard

    typer.echo(render_leaderboard(directory, table, output_format), nl=False)


@app.command()
def show(cell: CellArgument, directory: RunOption = DEFAULT_RUN) -> None:
    """Show the results of a cell and their provenance.

    The provenance is the cell's plugins, data sets, jobs with keys and seeds, and some trajectories.
    """
    from prmcal.harness.commands.show import render_cell

    typer.echo(render_cell(directory, cell), nl=False)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A cell id, as the leaderboard shows it.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another cell on the same data set.")],
    directory: RunOption = DEFAULT_RUN,
    metric: Annotated[str | None, typer.Option(metavar="METRIC", help="Compare this metric only.")] = None,
    output_format: FormatOption = "table",
) -> None:
    """Compare two cells on the same questions.

    Every metric has a difference with a 95% interval and a test of significance.
    """
    from prmcal.harness.commands.compare import render_comparison

    typer.echo(render_comparison(directory, first, second, metric, output_format), nl=False)


@app.command()
def report(
    directory: RunArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="REPORT", help="The folder of the report: new, empty, or an earlier report."
        ),
    ],
) -> None:
    """Write a report with tables and figures.

    Tables are written as Markdown, CSV and LaTeX, and figures as PNG and PDF.
    """
    from prmcal.harness.report import write_report

    files = write_report(directory, out)
    typer.echo(f"Wrote {len(files)} files to {out}. Start with {out / 'README.md'}.", err=True)


@app.command()
def export(
    directory: RunArgument,
    html: Annotated[
        Path,
        typer.Option(
            "--html", metavar="SITE", help="The folder of the site: new, empty, or an earlier site."
        ),
    ],
) -> None:
    """Write the leaderboards as a static site.

    A browser can open its files without a server, and GitHub Pages can host it.
    """
    from prmcal.harness.site import write_site

    files = write_site(directory, html)
    typer.echo(f"Wrote {len(files)} files to {html}. Open {html / 'index.html'}.", err=True)


@app.command()
def rebuild(directory: RunArgument) -> None:
    """Rebuild the database from the artifacts."""
    from prmcal.harness.execution.rebuild import rebuild_database

    cells = rebuild_database(directory)
    typer.echo(f"Rebuilt the database of {directory}: {cells} cells.", err=True)


@app.command(name="export-prm")
def export_prm(
    cell: Annotated[
        str,
        typer.Argument(
            metavar="CELL", help="A cell with a calibrator that fine-tunes the PRM, such as quantile-lora."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="The folder of the checkpoint: new or empty.")
    ],
    level: Annotated[
        float,
        typer.Option(
            "--level", metavar="BETA", help="The reward of the checkpoint: a level of the calibrator."
        ),
    ] = 0.5,
    directory: RunOption = DEFAULT_RUN,
) -> None:
    """Write a calibrated PRM as a checkpoint.

    Its README.md shows how to load it with transformers and vLLM.
    """
    from prmcal.harness.commands.export_prm import export_calibrated_prm

    export_calibrated_prm(directory, cell, out, level)
    typer.echo(f"Wrote the calibrated PRM to {out}. See {out / 'README.md'}.", err=True)


@app.command(name="export-success")
def export_success_rates(
    directory: RunArgument,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="A file that ends in .jsonl, .json or .parquet.")
    ],
) -> None:
    """Write the success rates of all prefixes.

    The file has the format of the published calibration set.
    """
    from prmcal.harness.commands.export_success import export_success

    typer.echo(f"Wrote {export_success(directory, out):,} prefixes to {out}.", err=True)


@app.command(name="import-first-pass")
def import_first_passes(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="The files inference_chunk_*.json, in order.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="RECORDING", help="The recording (JSON lines).")],
    rewards: Annotated[
        Path | None, typer.Option("--rewards", metavar="NPY", help="Rewards of shape (questions, samples).")
    ] = None,
) -> None:
    """Make a recording from published solutions.

    A grid such as the shipped grid `recorded` replays the recording.
    """
    from prmcal.harness.commands.import_first_pass import import_first_pass

    typer.echo(f"Wrote {import_first_pass(files, out, rewards):,} questions to {out}.", err=True)


@app.command(name="list")
def list_plugins(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="llm, prm, calibrator, dataset or strategy.")
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """List the registered plugins."""
    from prmcal.harness.commands.list import render_plugins

    _load_plugins(plugin)
    typer.echo(render_plugins(kind))


@app.command()
def check(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The name of a plugin, or a Python file that registers plugins."),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="llm, prm, calibrator, dataset or strategy. Needed if plugins of several kinds have the name.",
        ),
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
            help="A folder with the published weights of a PRM: verify that it reproduces the published rewards.",
        ),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Run the conformance checks on a plugin."""
    from prmcal.harness.commands.check import check_plugins

    _load_plugins(plugin)
    report, passed = check_plugins(name, kind, argument or [], weights)
    typer.echo(report)
    if not passed:
        raise typer.Exit(2)


@app.command()
def doctor(
    grid: Annotated[
        str | None,
        typer.Argument(metavar="GRID", help="A grid file (YAML), or the name of a shipped grid."),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Show what is installed and what a grid needs.

    It lists the packages, the hardware and the cached models. With GRID it also lists what the grid still needs.
    """
    from prmcal.harness.commands.doctor import grid_needs, machine_report

    typer.echo(machine_report())
    if grid is not None:
        needs, ready = grid_needs(_read(grid, None, plugin))
        typer.echo(f"\n{needs}")
        if not ready:
            raise typer.Exit(2)


@app.command()
def dashboard(
    directory: RunArgument,
    port: Annotated[int, typer.Option(metavar="PORT", help="The port on this machine.")] = 8501,
    headless: Annotated[bool, typer.Option("--headless", help="Do not open a browser.")] = False,
) -> None:
    """Open the leaderboard in a browser."""
    from prmcal.harness.commands.dashboard import serve

    serve(directory, port, headless)


def main() -> None:
    """Run the command line. An error that the user can act on becomes one line and exit code 2."""
    try:
        app()
    except PrmcalError as error:
        typer.echo(f"prmcal: error: {' '.join(str(error).split())}", err=True)
        sys.exit(2)


def _load_plugins(files: list[Path] | None) -> None:
    from prmcal.registry.plugins import load_plugin_file

    for file in files or []:
        load_plugin_file(file)


def _read(grid: str, limit: int | None, plugin_files: list[Path] | None) -> GridSpec:
    from prmcal.harness.planning.grid import read_grid

    _load_plugins(plugin_files)
    return read_grid(find_grid(grid)).limited(limit)
