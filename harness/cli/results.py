"""Commands that show results: leaderboard, show, compare, dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prmcal.harness.cli.app import app
from prmcal.harness.cli.options import DEFAULT_RUN, CellArgument, FormatOption, RunArgument, RunOption

__all__: list[str] = []


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
def dashboard(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="The output folders of one or more runs.")
    ],
    port: Annotated[int, typer.Option(metavar="PORT", help="The port on this machine.")] = 8501,
    headless: Annotated[bool, typer.Option("--headless", help="Do not open a browser.")] = False,
) -> None:
    """Open the leaderboard in a browser.

    With several runs, the pages have a switch and show the differences between runs.
    """
    from prmcal.harness.commands.dashboard import serve

    serve(directories, port, headless)
