"""The application to which the other modules of this room add their commands, and the order of its help."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from prmcal import __version__
from prmcal.harness.cli.exit_codes import EXPLANATION

__all__ = ["app"]

_GROUPS = {
    "Run a grid": ("plan", "run", "slurm", "status"),
    "Read the results": ("leaderboard", "show", "compare", "dashboard", "report", "export"),
    "Use a calibrated PRM": ("ask", "recommend", "serve"),
    "Share results": ("submit", "verify", "merge", "diff", "publish"),
    "Learn and check": ("docs", "list", "check", "doctor", "schema"),
    "Other": (),
}
"""The commands in the order of the help. The last group has those that no group names."""

_EXAMPLE = """\b
First example, without a GPU and without a download:
  prmcal run hello --out runs/hello
  prmcal leaderboard runs/hello
  prmcal dashboard runs/hello"""


class Grouped(TyperGroup):
    """The application, whose help lists the commands in groups."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the help."""
        named = [name for names in _GROUPS.values() for name in names if name in self.commands]
        return [*named, *(name for name in sorted(self.commands) if name not in named)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        names = self.list_commands(ctx)
        named = {name for group in _GROUPS.values() for name in group}
        for title, group in _GROUPS.items():
            shown = [name for name in names if name in (group or set(names) - named)]
            lines = [(name, self.commands[name].get_short_help_str(100)) for name in shown]
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


app = typer.Typer(
    name="prmcal",
    cls=Grouped,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{_EXAMPLE}\n\n{EXPLANATION}",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"prmcal {__version__}")
        raise typer.Exit


@app.callback()
def prmcal(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Measure and repair the calibration of process reward models, and see what calibration gains."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
