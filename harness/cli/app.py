"""The application: its commands in the order of the help, its exit codes, and how errors end it.

The module of a command is imported when the command is used, so ``prmcal --help`` loads neither torch nor pandas.
"""

import signal
import sys
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from prmcal import __version__
from prmcal.errors import PrmcalError

_LONGEST_MESSAGE = 2000

COMMANDS: dict[str, dict[str, tuple[str, str]]] = tomllib.loads(
    Path(__file__).with_name("commands.toml").read_text(encoding="utf-8")
)
"""The commands by their section of the help: where the function of each is, and the first sentence of its help."""

_EXAMPLE = """\b
First example, without a GPU and without a download:
  prmcal run hello --out runs/hello
  prmcal leaderboard runs/hello
  prmcal dashboard runs/hello"""
EXPLANATION = (
    "Exit codes: 0 done, 2 bad input, 3 cells failed (run, status), 4 checks failed (check, doctor, train-prm, "
    "rebuild), 130 interrupted, 143 ended by SIGTERM (129 by SIGHUP)."
)

_PLACES = {name: place for group in COMMANDS.values() for name, (place, _) in group.items()}
_NO_MEMORY = ("can't start new thread", "failed to map segment", "allocate memory", "bad_alloc", "Out of Memory")


class ExitCode(IntEnum):
    """The end of a command. Python itself ends with 1 after an error that prmcal does not expect."""

    DONE = 0
    """Everything was done."""
    BAD_INPUT = 2
    """An argument, a file or a folder was wrong. The message says what to do. Nothing was done."""
    FAILED_CELLS = 3
    """The grid was run to its end, but cells or a grader failed. `prmcal status` has the reasons."""
    FAILED_CHECKS = 4
    """A check of `prmcal check` or `prmcal rebuild --check` failed, `prmcal doctor` did not find a need of the grid, or
    the PRM of `prmcal train-prm` ranks too badly."""
    HUNG_UP = 129
    """SIGHUP: the terminal was closed. Finished work is kept."""
    INTERRUPTED = 130
    """Ctrl-C. Finished work is kept."""
    TERMINATED = 143
    """SIGTERM: a scheduler ended the run. Finished work is kept."""


class _Grouped(TyperGroup):
    """The application. Its help lists the commands in sections without importing them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(_PLACES)  # type: ignore[assignment] # Each is made when it is needed.

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; None if there is none."""
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            module, _, function = _PLACES[cmd_name].partition(":")
            callback = getattr(import_module(f"prmcal.harness.cli.{module}"), function)
            self.commands[cmd_name] = get_command_from_info(
                CommandInfo(cmd_name, callback=callback), pretty_exceptions_short=False, rich_markup_mode=None
            )
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(_PLACES)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of commands."""
        for title, group in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, sentence) for name, (_, sentence) in group.items()])


app = typer.Typer(
    name="prmcal",
    cls=_Grouped,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{_EXAMPLE}\n\n{EXPLANATION}",
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"prmcal {__version__}")
        raise typer.Exit


@app.callback()
def prmcal(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Measure and repair the calibration of process reward models, and see what calibration gains."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run_command() -> None:
    """Run the command of this process. An error that the user can act on becomes one line and an exit code."""
    warnings.formatwarning = lambda message, *_, **__: f"prmcal: warning: {message}\n"
    try:
        app()
    except Exception as error:
        message = _message(error)
        if not message:
            raise
        from prmcal.registry.messages import excerpt

        typer.echo(f"prmcal: error: {excerpt(message, _LONGEST_MESSAGE)}", err=True)
        sys.exit(ExitCode.BAD_INPUT)


def _message(error: BaseException) -> str:
    """Return the message for an error that the user or the machine causes; empty for an error in prmcal."""
    if isinstance(error, PrmcalError):
        return str(error)
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return (
            f"There is not enough memory ({str(error) or type(error).__name__}). Use fewer --workers, end other "
            "programs or raise the limit (`ulimit -v`), then run the same command again: finished work is kept."
        )
    if isinstance(error, OSError) and error.filename is not None:
        # A path that no file can have, or a folder that may not be opened.
        return f"{error.filename}: {error.strerror}. Give another path, or correct this one."
    return ""


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command like Ctrl-C, so that temporary files are removed.

    A signal that is ignored, such as SIGHUP after ``nohup``, stays ignored.
    """
    before = {
        number: signal.signal(number, _end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
