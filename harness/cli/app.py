"""The application to which the other modules of this room add their commands."""

from __future__ import annotations

from typing import Annotated

import typer

from prmcal import __version__

__all__ = ["app"]

app = typer.Typer(
    name="prmcal",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
