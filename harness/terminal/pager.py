"""Output that is longer than the terminal is shown in the pager of the reader."""

from __future__ import annotations

import sys

import typer
from rich.pager import SystemPager

from prmcal.harness.terminal.size import terminal_height

__all__ = ["show"]


def show(text: str, pager: bool = True) -> None:
    """Print a text. If it is longer than the terminal, show it in the pager (the variable PAGER, or ``less``)."""
    if pager and sys.stdout.isatty() and text.count("\n") >= terminal_height():
        SystemPager().show(text)
    else:
        typer.echo(text.removesuffix("\n"))
