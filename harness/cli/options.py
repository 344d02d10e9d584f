"""Arguments and options that several commands share, and the reading of grids and plugin files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prmcal.db.postgresql.address import address_of, is_address
from prmcal.errors import PrmcalError
from prmcal.harness.cli import complete
from prmcal.harness.planning.grid_file.shipped import find_grid, shipped_grids

if TYPE_CHECKING:
    from sqlalchemy import URL

    from prmcal.harness.planning.grid_file.grid import GridSpec


__all__ = [
    "DEFAULT_RUN",
    "CellArgument",
    "FormatOption",
    "GridArgument",
    "LimitOption",
    "OnlyOption",
    "OutOption",
    "PagerOption",
    "PluginOption",
    "ResultsArgument",
    "ResultsArguments",
    "ResultsOption",
    "RunArgument",
    "RunOption",
    "WideOption",
    "filter_option",
    "load_plugins",
    "local",
    "names_by_kind",
    "path_of",
    "place_of",
    "read",
]

_OR_SERVER = "or the address of a shared leaderboard, postgresql://USER@HOST/DATABASE"


def place_of(text: str | Path) -> Path | URL:
    """Return the folder or the address in a server that a user gave.

    Parameters
    ----------
    text : str or Path

    Raises
    ------
    DatabaseError
        If it is an address of another kind.
    """
    return address_of(str(text)) if is_address(str(text)) else Path(text)


def local(text: str | Path) -> str:
    """Return the name or the path of something on this machine, as the user gave it.

    Parameters
    ----------
    text : str or Path

    Raises
    ------
    PrmcalError
        If it is an address. The message does not repeat it, since it may have a password.
    """
    if is_address(str(text)):
        raise PrmcalError(
            "An address was given where a folder or a file is needed. To share results with a server, or to get what "
            "it has: prmcal merge OUT DIR_OR_BUNDLE... --database ADDRESS, where OUT is a folder."
        )
    return str(text)


def path_of(text: str | Path) -> Path:
    """Return the folder or the file that a user gave. Every argument and option that is a path is parsed by it.

    Parameters
    ----------
    text : str or Path

    Raises
    ------
    PrmcalError
        If it is an address.
    """
    return Path(local(text))


GridArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRID",
        help=f"A grid file (YAML), or the name of a shipped grid: {', '.join(shipped_grids())}.",
        autocompletion=complete.grids,
        parser=local,
    ),
]
RunArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The output folder of a run.", parser=path_of)
]
RunOption = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="The output folder of a run.", parser=path_of)
]
ResultsArgument = Annotated[
    Any,
    typer.Argument(metavar="DIR", help=f"The output folder of a run, {_OR_SERVER}.", parser=place_of),
]
ResultsArguments = Annotated[
    list[Any],
    typer.Argument(
        metavar="DIR...", help=f"The output folders of one or more runs, {_OR_SERVER}.", parser=place_of
    ),
]
ResultsOption = Annotated[
    Any,
    typer.Option("--dir", metavar="DIR", help=f"The output folder of a run, {_OR_SERVER}.", parser=place_of),
]
CellArgument = Annotated[
    str,
    typer.Argument(
        metavar="CELL",
        help="A cell: its number in the leaderboard (12 or '#12'), its id, or a part of the id that no other cell has.",
        autocompletion=complete.cells,
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="table, json, csv or markdown.",
        autocompletion=complete.formats,
    ),
]
WideOption = Annotated[bool, typer.Option("--wide", help="Show all columns, however long the lines become.")]
PagerOption = Annotated[
    bool,
    typer.Option(
        "--pager/--no-pager",
        help="Show output that is longer than the terminal in the pager (PAGER, or less).",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out", metavar="DIR", help="The output folder: artifacts and the database.", parser=path_of
    ),
]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", metavar="FILE", help="A Python file that registers plugins; repeatable.", parser=path_of
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="Use only the first N questions of every data set."),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KIND=NAME",
        help="Run only what the cells with this llm, prm, calibrator, dataset or strategy need, such as llm=weak; "
        "repeatable. Other cells stay as they are.",
    ),
]
DEFAULT_RUN = Path("runs/nano")


def filter_option(kind: str) -> Any:
    """Return the option that keeps the cells with plugins of a kind."""
    return typer.Option(metavar="NAME", help=f"Keep only this {kind}; repeatable.")


def load_plugins(files: list[Path] | None) -> None:
    """Register the plugins of Python files."""
    from prmcal.registry.plugin_files import load_plugin_file

    for file in files or []:
        load_plugin_file(file)


def names_by_kind(only: list[str] | None) -> dict[str, list[str]]:
    """Return the names of ``--only KIND=NAME`` by their kind.

    Raises
    ------
    PrmcalError
        If a value is not of this form.
    """
    found: dict[str, list[str]] = {}
    for each in only or []:
        kind, equals, name = each.partition("=")
        if not equals:
            raise PrmcalError(f"--only must be KIND=NAME, such as llm=weak. Got '{each}'.")
        found.setdefault(kind.strip(), []).append(name.strip())
    return found


def read(grid: str, limit: int | None, plugin_files: list[Path] | None) -> GridSpec:
    """Read a grid after the plugins of Python files were registered, and keep the first questions of every data set."""
    from prmcal.harness.planning.grid_file.read import read_grid

    load_plugins(plugin_files)
    return read_grid(find_grid(grid)).limited(limit)
