"""Commands to learn and check: docs, list, check, doctor, schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prmcal.harness.cli import complete
from prmcal.harness.cli.app import app
from prmcal.harness.cli.exit_codes import ExitCode
from prmcal.harness.cli.options import PluginOption, load_plugins, read

__all__: list[str] = []


@app.command()
def docs(
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only build the pages and print where they are.")
    ] = False,
) -> None:
    """Open the documentation in a browser.

    The pages are built when they are first opened, and kept in the user's cache.
    """
    from prmcal.harness.commands.learning.docs import build_documentation, open_page

    page = build_documentation()
    typer.echo(page)
    if not no_browser:
        open_page(page)


@app.command(name="list")
def list_plugins(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help="llm, prm, calibrator, dataset, strategy or metric.",
            autocompletion=complete.kinds,
        ),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """List the registered plugins."""
    from prmcal.harness.commands.learning.list import render_plugins

    load_plugins(plugin)
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
            help="llm, prm, calibrator, dataset, strategy or metric. Needed if plugins of several kinds have the name.",
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
    from prmcal.harness.commands.learning.check import check_plugins

    load_plugins(plugin)
    report, passed = check_plugins(name, kind, argument or [], weights)
    typer.echo(report)
    if not passed:
        raise typer.Exit(ExitCode.FAILED_CHECKS)


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
    from prmcal.harness.commands.learning.doctor import grid_needs, machine_report

    typer.echo(machine_report())
    if grid is not None:
        needs, ready = grid_needs(read(grid, None, plugin))
        typer.echo(f"\n{needs}")
        if not ready:
            raise typer.Exit(ExitCode.FAILED_CHECKS)


@app.command()
def schema(plugin: PluginOption = None) -> None:
    """Print the JSON Schema of a grid file.

    Editors use it for completion and errors: write it to a file, and name the file in the first line of a grid.
    """
    from prmcal.harness.commands.learning.schema import render_schema

    load_plugins(plugin)
    typer.echo(render_schema(), nl=False)
