"""The common parts of the commands: arguments and options, and formats of the output."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prmcal.db.text.formats import missing
from prmcal.errors import PrmcalError
from prmcal.grids import shipped_grids
from prmcal.harness.terminal import fit, wrapped

if TYPE_CHECKING:
    import pandas as pd

    from prmcal.db.text.board import Column
    from prmcal.harness.planning.grid import GridSpec

FORMATS = ("table", "json", "csv")
DEFAULT_RUN = Path("runs/nano")


def option(metavar: str, meaning: str, *names: str, **settings: Any) -> Any:
    """Return an option of a command. Without names, it has the name of its parameter."""
    return typer.Option(*names, metavar=metavar, help=meaning, **settings)


def argument(metavar: str, meaning: str, **settings: Any) -> Any:
    """Return an argument of a command."""
    return typer.Argument(metavar=metavar, help=meaning, **settings)


def _name_filter(title: str) -> Any:
    return option("NAME", f"Keep only this {title}; repeatable.")


def _cell_choice(title: str) -> Any:
    return option("NAME", f"Choose a cell with this {title}.")


LLMsOption = Annotated[list[str] | None, _name_filter("LLM")]
PRMsOption = Annotated[list[str] | None, _name_filter("PRM")]
CalibratorsOption = Annotated[list[str] | None, _name_filter("calibrator")]
DatasetsOption = Annotated[list[str] | None, _name_filter("data set")]
StrategiesOption = Annotated[list[str] | None, _name_filter("strategy")]
LLMOption = Annotated[str | None, _cell_choice("LLM")]
PRMOption = Annotated[str | None, _cell_choice("PRM")]
CalibratorOption = Annotated[str | None, _cell_choice("calibrator")]
_GRIDS = f"A grid file (YAML), or the name of a shipped grid: {', '.join(shipped_grids())}."
_CELL = "A cell: its number in the leaderboard (12 or '#12'), its id, or a part of the id that no other cell has."
_CELL_IN_USE = (
    "A cell: its number, its id or a part of it. A cell of the scaling leaderboard also gives the strategy, by default "
    "'learned stopping'. If no cell is named, the LLM is the one that is right most often on the calibration "
    "questions, the PRM the one whose scores tell right from wrong best there, and the calibrator the first of the "
    "ranking."
)
_ALLOWED_HOSTS = (
    "A further name of the server, such as the name of a proxy; repeatable. The server refuses requests with other "
    "names in their headers Host and Origin. `*.example.com` stands for all names that end in .example.com."
)
_ONLY = (
    "Run only what the cells with this llm, prm, calibrator, dataset or strategy need, such as llm=weak; repeatable. "
    "Other cells stay as they are."
)
_WORKERS = "Number of worker processes, which share the GPUs evenly. Default: one for each GPU or core."
_LABEL_FIELD = "The field that says whether a solution is right, or which step is the first wrong one."
GridArgument = Annotated[str, argument("GRID", _GRIDS)]
RunArgument = Annotated[Path, argument("DIR", "The output folder of a run.")]
RunOption = Annotated[Path, option("DIR", "The output folder of a run.", "--dir")]
CellArgument = Annotated[str, argument("CELL", _CELL)]
CellOption = Annotated[str | None, option("CELL", _CELL_IN_USE)]
FormatOption = Annotated[str, option("FORMAT", "table, json or csv.", "--format")]
AllowedHostsOption = Annotated[list[str] | None, option("NAME", _ALLOWED_HOSTS)]
WideOption = Annotated[bool, typer.Option("--wide", help="Show all columns, however long the lines become.")]
OutOption = Annotated[Path, option("DIR", "The output folder: artifacts and the database.")]
PluginOption = Annotated[list[Path] | None, option("FILE", "A Python file that registers plugins; repeatable.")]
LimitOption = Annotated[int | None, option("N", "Use only the first N questions of every data set.", min=1)]
OnlyOption = Annotated[list[str] | None, option("KIND=NAME", _ONLY)]
WorkersOption = Annotated[int | None, option("N", _WORKERS, min=1)]
QuestionFieldOption = Annotated[str | None, option("FIELD", "The field with the question.")]
LabelFieldOption = Annotated[str | None, option("FIELD", _LABEL_FIELD)]
OnlyRecordsOption = Annotated[
    list[str] | None, option("KIND=NAME", "The llm, prm, dataset or split of a run, or FIELD=VALUE; repeatable.")
]


def tell(text: str) -> None:
    """Print a text on standard error. If the terminal was closed, the command continues to its end."""
    with suppress(OSError):
        typer.echo(text, err=True)


def load_plugins(files: Sequence[Path] | None) -> None:
    """Register the plugins of Python files."""
    from prmcal.registry.plugins import load_plugin_file

    for file in files or []:
        load_plugin_file(file)


def names_by_kind(only: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the names of ``--only KIND=NAME`` by their kind. Raises a PrmcalError if one is not of this form."""
    names: dict[str, list[str]] = {}
    for selection in only or []:
        kind, equals, name = selection.partition("=")
        if not equals:
            raise PrmcalError(f"--only must be KIND=NAME, such as llm=weak. Got '{selection}'.")
        names.setdefault(kind.strip(), []).append(name.strip())
    return names


def load_grid(grid: str, limit: int | None, plugin_files: Sequence[Path] | None) -> "GridSpec":
    """Read a grid, register plugins of the grid and of other files, and keep the first questions of every data set."""
    from prmcal.harness.planning.reading import find_grid, read_grid

    spec = read_grid(find_grid(grid))
    load_plugins([*(plugin_files or []), *map(Path, spec.plugins)])
    return spec.limited(limit)


def one_of(option: str, value: str, choices: Sequence[str]) -> None:
    """Raise a PrmcalError with the known values for an unknown value of an option."""
    if value not in choices:
        raise PrmcalError(f"{option} must be one of {', '.join(choices)}. Got '{value}'.")


def exported(frame: "pd.DataFrame", output_format: str) -> str:
    """Return all columns of a table as ``csv`` or ``json``."""
    if output_format == "csv":
        return str(frame.to_csv(index=False, lineterminator="\n"))
    return json.dumps([plain_row(row) for row in frame.to_dict("records")], indent=1) + "\n"


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for JSON: NaN and NA become None."""
    return {name: None if missing(value) else value for name, value in row.items()}


def table(
    columns: "Sequence[Column]",
    width: int | None = None,
    *,
    legend: Sequence[str] = (),
    options: Sequence[str] = (),
    sections: Mapping[int, str] | None = None,
) -> str:
    """Return a table that fits, and below it a legend and a line on the columns that were left out.

    `columns`, `width` and `sections` are as for :func:`prmcal.harness.terminal.fit`. `options` are the options besides
    ``--wide`` that show more columns.
    """
    fitted = fit(columns, width, sections)
    lines = list(legend)
    if fitted.hidden:
        names = ", ".join(column.title for column in fitted.hidden)
        lines.append(f"Hidden at this width: {names}. To see them: {' or '.join(('--wide', *options))}.")
    below = "\n".join(wrapped(line, width) for line in lines)
    return f"{fitted.text}\n\n{below}" if below else fitted.text
