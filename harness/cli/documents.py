"""Commands for documentation: docs, schema."""

from __future__ import annotations

from typing import Annotated

import typer

from prmcal.harness.cli.app import app
from prmcal.harness.cli.options import PluginOption, load_plugins

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
    from prmcal.harness.commands.docs import build_documentation, open_page

    page = build_documentation()
    typer.echo(page)
    if not no_browser:
        open_page(page)


@app.command()
def schema(plugin: PluginOption = None) -> None:
    """Print the JSON Schema of a grid file.

    Editors use it for completion and errors: write it to a file, and name the file in the first line of a grid.
    """
    from prmcal.harness.commands.schema import render_schema

    load_plugins(plugin)
    typer.echo(render_schema(), nl=False)
