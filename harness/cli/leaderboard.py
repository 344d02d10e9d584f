"""``prmcal leaderboard``: the overview, the leaderboards and the league, as text, JSON or CSV."""

import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.cells import cell_len

from prmcal.db.catalog import metrics as described_metrics
from prmcal.db.catalog import plugins
from prmcal.db.metrics import SETTING, Leaderboard
from prmcal.db.overview.competition import of_calibrators
from prmcal.db.overview.query import league, league_frame, overview, ranking_frame
from prmcal.db.overview.types import League, Overview
from prmcal.db.queries.leaderboard import leaderboard as cells_of
from prmcal.db.text.answer import answer, cautions, extent, winner
from prmcal.db.text.bars import bars
from prmcal.db.text.board import Board, Column, leaderboard_board
from prmcal.db.text.formats import LEADERBOARDS
from prmcal.db.text.overview import (
    cards,
    league_board,
    league_measured,
    league_sentence,
    measured,
    ranking_board,
    tiles,
)
from prmcal.errors import PrmcalError
from prmcal.harness.cli import options
from prmcal.harness.cli.options import option
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, fit, wrapped
from prmcal.registry.messages import meant

TABLES = ("overview", *LEADERBOARDS)
_NAMES = (*SETTING, "strategy", "calibrator")
_IDENTITY = ("number", "strategy", "calibrator")
_SETTINGS = ("target", "level")
_COUNTS = ("questions", "rows")
_SHARED = (*SETTING, *_SETTINGS, "strategy", "calibrator", "status")
"""The columns that are shown once above the table if they are the same in all rows."""


def leaderboard(
    directory: options.RunArgument,
    table: Annotated[str, option("TABLE", "overview, calibration, scaling or league.")] = "overview",
    output_format: options.FormatOption = "table",
    llm: options.LLMsOption = None,
    prm: options.PRMsOption = None,
    calibrator: options.CalibratorsOption = None,
    dataset: options.DatasetsOption = None,
    strategy: options.StrategiesOption = None,
    wide: options.WideOption = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show the overview in full: its cautions in words, and the ranking with all columns and what they "
            "mean.",
        ),
    ] = False,
) -> None:
    """Print the ranking of the calibrators, or a leaderboard.

    The overview ranks the calibrators over all settings that have them, and the league ranks the strategies at
    equal cost. The other tables have a row for each cell, which begins with its number. Every value has a 95% interval.

    Tables fit the terminal: they leave out columns and say which. Output that goes into a file or a pipe is 100 columns
    wide unless the variable COLUMNS says otherwise.
    """
    names = {"llm": llm, "prm": prm, "calibrator": calibrator, "dataset": dataset, "strategy": strategy}
    filters = {kind: listed for kind, listed in names.items() if listed}
    width = UNLIMITED if wide else None
    typer.echo(
        render_leaderboard(directory, table, output_format, filters=filters, width=width, explain=explain), nl=False
    )


def render_leaderboard(
    directory: Path,
    table: str = "overview",
    output_format: str = "table",
    *,
    filters: Mapping[str, Sequence[str]] | None = None,
    width: int | None = None,
    explain: bool = False,
) -> str:
    """Return a leaderboard of a run's folder. The parameters are the options of the command."""
    options.one_of("--table", table, TABLES)
    options.one_of("--format", output_format, options.FORMATS)
    if explain and (table != "overview" or output_format != "table"):
        raise PrmcalError("--explain is for the overview in words. Leave out --table and --format, or --explain.")
    published = RunFolder(directory).results()
    _check_filters(published, table, filters or {})
    kept: dict[str, Any] = dict(filters or {})
    if table == "overview":
        ranked = overview(published, **kept)
        frame = ranking_frame(ranked)
        text = partial(explained_text if explain or width == UNLIMITED else overview_text, ranked, directory)
    elif table == "league":
        entries = league(published, **kept)
        frame = league_frame(entries)
        text = partial(_league_text, entries, directory)
    else:
        name: Leaderboard = "calibration" if table == "calibration" else "scaling"
        frame = cells_of(published, name, **kept)
        shown = None if width == UNLIMITED else LEADERBOARDS[name].main_metrics
        board = leaderboard_board(frame, name, described_metrics(published), shown)
        text = partial(board_text, board)
    return text(width) if output_format == "table" else options.exported(frame, output_format)


def overview_text(ranking: Overview, directory: Path, width: int | None = None) -> str:
    """Return the overview of a run: the answer, three numbers, the ranking, cautions, and what to read next."""
    folder = shlex.quote(str(directory))
    notes = [winner(of_calibrators(ranking))] if ranking.ranking else []
    titles = dict.fromkeys(title.lower() for title, _, _ in cautions(ranking))
    if titles:
        notes.append(f"Caution: {', '.join(titles)}.")
    parts = [
        wrapped(f"{answer(ranking)} ({extent(ranking)})", width),
        _titled([(tile.title, tile.figure, tile.detail) for tile in cards(ranking)], width),
        fit(bars(ranking), width).text if ranking.ranking else "",
        wrapped(" ".join(notes), width),
        f"Next: prmcal leaderboard {folder} --explain\n      prmcal dashboard {folder}",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def explained_text(ranking: Overview, directory: Path, width: int | None = None) -> str:
    """Return the overview in full: what was measured, the findings in words, and the ranking with all that is known."""
    folder = shlex.quote(str(directory))
    parts = [
        wrapped(measured(ranking), width),
        _titled([(tile.title, tile.figure, tile.detail) for tile in tiles(ranking)], width),
        _ranked(ranking_board(ranking), width) if ranking.ranking else "",
        _commands(
            f"prmcal leaderboard {folder} --table calibration   # or scaling, league",
            *_comparison(ranking, folder),
            f"prmcal dashboard {folder}",
        ),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _titled(rows: Sequence[tuple[str, str, str]], width: int | None) -> str:
    """Return a paragraph for each row: its title, its figure, and what this means."""
    first = max((cell_len(title) for title, _, _ in rows), default=0) + 2
    second = first + max((cell_len(figure) for _, figure, _ in rows), default=0) + 2
    indent = " " * second
    return "\n".join(
        f"{title:{first}}{figure:{second - first}}{wrapped(detail, width, indent=indent)[second:]}"
        for title, figure, detail in rows
    )


def _league_text(found: League, directory: Path, width: int | None) -> str:
    """Return the league of a run."""
    if not found.rows:
        nothing = "There are no such cells. Add 'league: true' to the grid file if it has no league."
        return wrapped(league_measured(found) if any(found.counts.values()) else nothing, width) + "\n"
    folder = shlex.quote(str(directory))
    parts = [
        wrapped(league_measured(found), width),
        wrapped(league_sentence(found), width),
        _ranked(league_board(found), width),
        _commands(
            f"prmcal leaderboard {folder} --table league --llm NAME", f"prmcal dashboard {folder}   # page League"
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _ranked(board: Board, width: int | None) -> str:
    return options.fitted(board.columns, width, legend=[board.legend], options=["--format csv"])


def _commands(*commands: str) -> str:
    """Return commands that show more. They are not wrapped, so that they can be copied."""
    return "\n".join(["Next:", *(f"  {command}" for command in commands)])


def _comparison(found: Overview, folder: str) -> list[str]:
    """Return the command that compares the baseline with the best calibrator at the first setting that has both."""
    best = found.ranking[0].calibrator if found.ranking else found.baseline
    done = found.cells[found.cells["status"] == "done"]
    for _, setting in done.groupby(SETTING, sort=False):
        numbers = dict(zip(setting["calibrator"], setting["number"], strict=True))
        if best != found.baseline and {best, found.baseline} <= numbers.keys():
            return [f"prmcal compare {numbers[found.baseline]} {numbers[best]} --dir {folder}"]
    return []


def _check_filters(published: Path, table: str, filters: Mapping[str, Sequence[str]]) -> None:
    """Raise a PrmcalError if a filter does not apply to the table, or the grid has no such name."""
    known = plugins(published)
    for kind, names in filters.items():
        if table == "overview" and kind in ("calibrator", "strategy"):
            raise PrmcalError(
                f"--{kind} does not apply to the overview, which ranks all calibrators. "
                "Choose a table: --table calibration, scaling or league."
            )
        of_kind = list(known.loc[known["kind"] == kind, "name"])
        for name in names:
            if name not in of_kind:
                hint = meant(name, of_kind, f"There are: {', '.join(of_kind) or 'none'}.")
                raise PrmcalError(f"--{kind}: the grid has no {kind} '{name}'. {hint}")


def board_text(found: Board, width: int | None = None) -> str:
    """Return a table of cells with its legend and its notes."""
    columns_of = {column.key: column for column in found.columns if any(column.values)}
    if not columns_of:
        return "There are no such cells.\n"
    same = [key for key in _SHARED if key in columns_of and _shared(columns_of[key])]
    settings = [columns_of[key] for key in SETTING if key in columns_of and key not in same]
    names = list(zip(*(each.values for each in settings), strict=True)) or [()] * len(found.rows)
    groups = [list(rows) for _, rows in itertools.groupby(range(len(names)), names.__getitem__)]
    above, headings, left_out = [], {}, set(same)
    if len(groups) < len(found.rows) and settings:
        counts = [columns_of[key] for key in _COUNTS if key in columns_of]
        counts = [each for each in counts if all(len({each.values[row] for row in own}) == 1 for own in groups)]
        left_out |= {each.key for each in (*settings, *counts)}
        above.append(f"Headings: {', '.join(each.title for each in settings)}.")
        for row, *_ in groups:
            numbers = ", ".join(f"{each.values[row]} {each.title.lower()}" for each in counts)
            heading = ", ".join(filter(None, (each.values[row] for each in settings)))
            headings[row] = f"{heading} ({numbers})" if numbers else heading
    if same and len(found.rows) > 1:
        above.append(f"In all rows: {', '.join(_said(columns_of[key]) for key in same)}.")
    weights = _weights(found)
    shown = [
        replace(column, weight=weights[key], whole=key not in _NAMES)
        for key, column in columns_of.items()
        if key not in left_out and key in weights
    ]
    table = options.fitted(shown, width, legend=[found.legend], options=["--format csv"], sections=headings)
    parts = [wrapped(" ".join(above), width)] if above else []
    return "\n\n".join([*parts, table, *(wrapped(note, width) for note in found.notes)]) + "\n"


def _weights(found: Board) -> dict[str, int]:
    """Return the weight of each column that may be shown: 0 for what must stay, more for what goes first."""
    metrics = [key for key in found.keys[found.names :] if key not in (*_COUNTS, "status")]
    order = [*SETTING, *_SETTINGS, *metrics[1:], "status", *_COUNTS]
    must = {key: 0 for key in (*_IDENTITY, *(metrics[:1] or ["status"])) if key in found.keys}
    return {key: rank for rank, key in enumerate(order, start=1) if key in found.keys} | must


def _shared(column: Column) -> bool:
    """Return whether all rows have the same value. Rows of strategies without C or β do not count."""
    return len({each for each in column.values if each or column.key not in _SETTINGS}) == 1


def _said(column: Column) -> str:
    value = next(filter(None, column.values))
    if column.key == "status":
        return value
    return f"{column.title} {value}{'' if all(column.values) else ' (if the strategy has one)'}"
