"""The entry point of the command line."""

from __future__ import annotations

import sys

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli import documents, files, grids, plugins, results
from prmcal.harness.cli.app import app
from prmcal.harness.cli.exit_codes import ExitCode
from prmcal.registry.excerpts import excerpt

__all__ = ["main"]

_LONGEST_MESSAGE = 2000

COMMANDS = (grids, results, files, plugins, documents)
"""The modules whose import adds the commands. The order of the help is in `app`."""


def main() -> None:
    """Run the command line. An error that the user can act on becomes one line and an exit code."""
    try:
        app()
    except PrmcalError as error:
        typer.echo(f"prmcal: error: {excerpt(str(error), _LONGEST_MESSAGE)}", err=True)
        sys.exit(ExitCode.BAD_INPUT)
