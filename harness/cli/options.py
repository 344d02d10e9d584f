"""Arguments and options that several commands share, and the reading of grids and plugin files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli import complete
from prmcal.harness.planning.grid_file.shipped import find_grid, shipped_grids

if TYPE_CHECKING:
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
    "RunArgument",
    "RunArguments",
    "RunOption",
    "WideOption",
    "filter_option",
    "load_plugins",
    "names_by_kind",
    "read",
]

GridArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRID",
        help=f"A grid file (YAML), or the name of a shipped grid: {', '.join(shipped_grids())}.",
        autocompletion=complete.grids,
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The output folder of a run.")]
RunOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The output folder of a run.")]
RunArguments = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="The output folders of one or more runs.")
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
    typer.Option("--out", metavar="DIR", help="The output folder: artifacts and the database."),
]
PluginOption = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="A Python file that registers plugins; repeatable."),
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
