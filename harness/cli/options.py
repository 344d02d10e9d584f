"""The common parts of the commands: arguments and options, and formats of the output."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prmcal.db.text.formats import missing
from prmcal.errors import PrmcalError
from prmcal.harness.planning.reading import find_grid, shipped_grids
from prmcal.harness.terminal import fit, wrapped

if TYPE_CHECKING:
    import pandas as pd

    from prmcal.db.text.board import Column
    from prmcal.harness.planning.grid import GridSpec


WORDS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))
"""What the options and the arguments of each command mean, and under "common" those of several commands."""
FORMATS = ("table", "json", "csv")
DEFAULT_RUN = Path("runs/nano")


def option(metavar: str, meaning: str, *names: str, **settings: Any) -> Any:
    """Return an option of a command. Without names, it is called like its parameter."""
    return typer.Option(*names, metavar=metavar, help=meaning, **settings)


def argument(metavar: str, meaning: str, **settings: Any) -> Any:
    """Return an argument of a command."""
    return typer.Argument(metavar=metavar, help=meaning, **settings)


def _keep(title: str) -> Any:
    return option("NAME", f"Keep only this {title}; repeatable.")


def _choose(title: str) -> Any:
    return option("NAME", f"Choose a cell with this {title}.")


LLMsOption = Annotated[list[str] | None, _keep("LLM")]
PRMsOption = Annotated[list[str] | None, _keep("PRM")]
CalibratorsOption = Annotated[list[str] | None, _keep("calibrator")]
DatasetsOption = Annotated[list[str] | None, _keep("data set")]
StrategiesOption = Annotated[list[str] | None, _keep("strategy")]
LLMOption = Annotated[str | None, _choose("LLM")]
PRMOption = Annotated[str | None, _choose("PRM")]
CalibratorOption = Annotated[str | None, _choose("calibrator")]
_GRIDS = f"A grid file (YAML), or the name of a shipped grid: {', '.join(shipped_grids())}."
GridArgument = Annotated[str, argument("GRID", _GRIDS)]
RunArgument = Annotated[Path, argument("DIR", WORDS["common"]["run"])]
RunOption = Annotated[Path, option("DIR", WORDS["common"]["run"], "--dir")]
CellArgument = Annotated[str, argument("CELL", WORDS["common"]["cell"])]
CellOption = Annotated[str | None, option("CELL", WORDS["common"]["cell_option"])]
FormatOption = Annotated[str, option("FORMAT", WORDS["common"]["format"], "--format")]
AllowedHostsOption = Annotated[list[str] | None, option("NAME", WORDS["common"]["allowed_hosts"])]
WideOption = Annotated[bool, typer.Option("--wide", help=WORDS["common"]["wide"])]
OutOption = Annotated[Path, option("DIR", WORDS["common"]["out"], "--out")]
PluginOption = Annotated[list[Path] | None, option("FILE", WORDS["common"]["plugin"], "--plugin")]
LimitOption = Annotated[int | None, option("N", WORDS["common"]["limit"], "--limit", min=1)]
OnlyOption = Annotated[list[str] | None, option("KIND=NAME", WORDS["common"]["only"], "--only")]


def tell(text: str) -> None:
    """Print a text on standard error. If the terminal was closed, the command goes on to its end."""
    with suppress(OSError):
        typer.echo(text, err=True)


def load_plugins(files: Sequence[Path] | None) -> None:
    """Register the plugins of Python files."""
    from prmcal.registry.plugins import load_plugin_file

    for file in files or []:
        load_plugin_file(file)


def names_by_kind(only: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the names of ``--only KIND=NAME`` by their kind. Raises a PrmcalError if one is not of this form."""
    found: dict[str, list[str]] = {}
    for each in only or []:
        kind, equals, name = each.partition("=")
        if not equals:
            raise PrmcalError(f"--only must be KIND=NAME, such as llm=weak. Got '{each}'.")
        found.setdefault(kind.strip(), []).append(name.strip())
    return found


def read(grid: str, limit: int | None, plugin_files: Sequence[Path] | None) -> "GridSpec":
    """Read a grid, register its plugins and those of other files, and keep the first questions of every data set."""
    from prmcal.harness.planning.reading import read_grid

    spec = read_grid(find_grid(grid))
    load_plugins([*(plugin_files or []), *map(Path, spec.plugins)])
    return spec.limited(limit)


def one_of(option: str, value: str, known: Sequence[str]) -> None:
    """Raise a PrmcalError, which names the known values, unless the value of an option is known."""
    if value not in known:
        raise PrmcalError(f"{option} must be one of {', '.join(known)}. Got '{value}'.")


def exported(frame: "pd.DataFrame", output_format: str) -> str:
    """Return all columns of a table as ``csv`` or ``json``."""
    if output_format == "csv":
        text: str = frame.to_csv(index=False, lineterminator="\n")
        return text
    return json.dumps([plain_row(row) for row in frame.to_dict("records")], indent=1) + "\n"


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for JSON: NaN and NA become None."""
    return {name: None if missing(value) else value for name, value in row.items()}


def fitted(
    columns: "Sequence[Column]",
    width: int | None = None,
    *,
    legend: Sequence[str] = (),
    options: Sequence[str] = (),
    sections: Mapping[int, str] | None = None,
) -> str:
    """Return a table that fits, and below it a legend and a line on the columns that were left out.

    `columns`, `width` and `sections` are as for :func:`prmcal.harness.terminal.fit`. `options` are those that show
    columns which were left out, besides ``--wide``.
    """
    found = fit(columns, width, sections)
    lines = list(legend)
    if found.hidden:
        names = ", ".join(each.title for each in found.hidden)
        lines.append(f"Hidden at this width: {names}. To see them: {' or '.join(('--wide', *options))}.")
    below = "\n".join(wrapped(line, width) for line in lines)
    return f"{found.text}\n\n{below}" if below else found.text
