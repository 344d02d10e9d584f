"""Commands for plugins: list, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prmcal.harness.cli import complete
from prmcal.harness.cli.app import app
from prmcal.harness.cli.exit_codes import ExitCode
from prmcal.harness.cli.options import PluginOption, load_plugins

__all__: list[str] = []


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
    from prmcal.harness.commands.list import render_plugins

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
    from prmcal.harness.commands.check import check_plugins

    load_plugins(plugin)
    report, passed = check_plugins(name, kind, argument or [], weights)
    typer.echo(report)
    if not passed:
        raise typer.Exit(ExitCode.FAILED_CHECKS)
