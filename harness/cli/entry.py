"""The entry point of the command line."""

from __future__ import annotations

import sys

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli import documents, files, grids, plugins, results
from prmcal.harness.cli.app import app

__all__ = ["main"]

COMMANDS = (grids, results, files, plugins, documents)
"""The modules whose import adds the commands, in the order of the help."""


def main() -> None:
    """Run the command line. An error that the user can act on becomes one line and exit code 2."""
    try:
        app()
    except PrmcalError as error:
        typer.echo(f"prmcal: error: {' '.join(str(error).split())}", err=True)
        sys.exit(2)
