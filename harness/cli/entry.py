"""The entry point of the command line."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli import files, grid, learning, results, sharing, use
from prmcal.harness.cli.app import app
from prmcal.harness.cli.exit_codes import ExitCode
from prmcal.registry.excerpts import excerpt

__all__ = ["main"]

_LONGEST_MESSAGE = 2000

COMMANDS = (grid, results, use, sharing, learning, files)
"""The modules whose import adds the commands. The order of the help is in `app`."""


def main() -> None:
    """Run the command line. An error that the user can act on becomes one line and an exit code."""
    try:
        app()
    except PrmcalError as error:
        _refuse(str(error))
    except OSError as error:  # a path that no file can have, or a folder that may not be opened
        if error.filename is None:
            raise
        _refuse(f"{error.filename}: {error.strerror}. Give another path, or correct this one.")
    except RuntimeError as error:  # links that lead to each other, before Python 3.13
        if not str(error).startswith("Symlink loop"):
            raise
        _refuse(f"{error}. Give another path, or correct this one.")


def _refuse(message: str) -> NoReturn:
    typer.echo(f"prmcal: error: {excerpt(message, _LONGEST_MESSAGE)}", err=True)
    sys.exit(ExitCode.BAD_INPUT)
