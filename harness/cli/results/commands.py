"""Commands that show results: leaderboard, show, compare, dashboard, report, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prmcal.harness.cli.options import (
    DEFAULT_RUN,
    CalibratorsOption,
    CellArgument,
    DatasetsOption,
    FormatOption,
    LLMsOption,
    PagerOption,
    PRMsOption,
    RunArgument,
    RunOption,
    RunsArgument,
    StrategiesOption,
    WideOption,
    completing,
    completing_cells,
    given,
)
from prmcal.harness.terminal import UNLIMITED
from prmcal.harness.terminal import show as show_text


def leaderboard(
    directory: RunArgument,
    table: Annotated[
        str,
        typer.Option(
            metavar="TABLE",
            help="overview, calibration, scaling, league or costs.",
            autocompletion=completing("overview", "calibration", "scaling", "league", "costs"),
        ),
    ] = "overview",
    output_format: FormatOption = "table",
    llm: LLMsOption = None,
    prm: PRMsOption = None,
    calibrator: CalibratorsOption = None,
    dataset: DatasetsOption = None,
    strategy: StrategiesOption = None,
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="TIER",
            help="Keep only cells of a merged leaderboard that were verified at least at this tier: consistent, "
            "'graded again', 'scored again' or reproduced.",
            autocompletion=completing("consistent", "graded again", "scored again", "reproduced"),
        ),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Show these columns, the most important first. They have the names of --format csv.",
        ),
    ] = "",
    wide: WideOption = False,
    pager: PagerOption = True,
) -> None:
    """Print the ranking of the calibrators, or a leaderboard.

    The overview ranks the calibrators over all places where they were measured, and the league ranks the strategies at
    equal cost. The other tables have a row for each cell, which begins with its number. Every value has a 95% interval.

    Tables fit the terminal: they leave out columns and say which. Output that goes into a file or a pipe is 100 columns
    wide unless the variable COLUMNS says otherwise.
    """
    from prmcal.harness.cli.results.leaderboard import render_leaderboard

    text = render_leaderboard(
        directory,
        table,
        output_format,
        filters=given(llm=llm, prm=prm, calibrator=calibrator, dataset=dataset, strategy=strategy),
        tier=tier,
        columns=[name.strip() for name in columns.split(",") if name.strip()],
        width=UNLIMITED if wide else None,
    )
    show_text(text, pager and output_format == "table")


def show(
    cell: CellArgument,
    directory: RunOption = DEFAULT_RUN,
    wide: WideOption = False,
    pager: PagerOption = True,
) -> None:
    """Show the results of a cell and their provenance.

    The provenance is the cell's plugins, data sets, jobs with keys and seeds, and some trajectories.
    """
    from prmcal.harness.cli.results.show import render_cell

    show_text(render_cell(directory, cell, UNLIMITED if wide else None), pager)


def compare(
    first: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="A cell: its number in the leaderboard, its id or a part of it.",
            autocompletion=completing_cells,
        ),
    ],
    second: Annotated[
        str,
        typer.Argument(
            metavar="B", help="Another cell on the same data set.", autocompletion=completing_cells
        ),
    ],
    directory: RunOption = DEFAULT_RUN,
    metric: Annotated[str | None, typer.Option(metavar="METRIC", help="Compare this metric only.")] = None,
    output_format: FormatOption = "table",
    wide: WideOption = False,
    pager: PagerOption = True,
) -> None:
    """Compare two cells on the same questions.

    Every metric has a difference with a 95% interval and a test of significance.
    """
    from prmcal.harness.cli.results.compare import render_comparison

    width = UNLIMITED if wide else None
    text = render_comparison(directory, first, second, metric, output_format, width)
    show_text(text, pager and output_format == "table")


def dashboard(
    directories: RunsArgument,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=1, max=65535, help="The port of the server.")
    ] = 8501,
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="The address that the server listens at. With 0.0.0.0, other machines can open the pages.",
        ),
    ] = "127.0.0.1",
    base_path: Annotated[
        str,
        typer.Option(metavar="PATH", help="The path below which a proxy serves the pages, such as /prmcal."),
    ] = "",
    headless: Annotated[bool, typer.Option("--headless", help="Do not open a browser.")] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Add page 'Try it', which answers questions with the models of the first DIR. It loads them.",
        ),
    ] = False,
    cell: Annotated[
        str | None,
        typer.Option(
            metavar="CELL",
            help="With --live: the cell whose calibrator is used.",
            autocompletion=completing_cells,
        ),
    ] = None,
) -> None:
    """Open the results in a browser.

    A folder may be empty: the pages fill up when a run writes into it. With several runs, the pages have a switch and
    show the differences between runs.
    """
    from prmcal.harness.cli.results.dashboard import serve

    serve(directories, host=host, port=port, base_path=base_path, headless=headless, live=live, cell=cell)


def report(
    directory: RunArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="REPORT",
            help="The folder of the report: new, empty, or an earlier report.",
        ),
    ],
) -> None:
    """Write a report with tables and figures.

    Tables are written as Markdown, CSV and LaTeX, and figures as PNG, PDF and SVG.
    """
    from prmcal.harness.report import write_report

    files = write_report(directory, out)
    typer.echo(f"Wrote {len(files)} files to {out}. Start with {out / 'README.md'}.", err=True)


def export(
    directories: RunsArgument,
    html: Annotated[
        Path,
        typer.Option(
            "--html",
            metavar="SITE",
            help="The folder of the site: new, empty, or an earlier site.",
        ),
    ],
) -> None:
    """Write the leaderboards as a static site.

    A browser can open its files without a server, and GitHub Pages can host it. With several runs, its first page
    compares them.
    """
    from prmcal.harness.site import write_site

    files = write_site(directories, html)
    typer.echo(f"Wrote {len(files)} files to {html}. Open {html / 'index.html'}.", err=True)
