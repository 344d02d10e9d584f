"""``prmcal leaderboard``: the overview, the leaderboards and the league, as text, JSON or CSV."""

import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len

from prmcal.db.catalog import metrics as described_metrics
from prmcal.db.catalog import plugins
from prmcal.db.metrics import SETTING, Leaderboard
from prmcal.db.overview.competition import of_calibrators
from prmcal.db.overview.query import league, league_frame, overview, ranking_frame
from prmcal.db.overview.types import League, Overview
from prmcal.db.queries.groups import by_group
from prmcal.db.queries.leaderboard import leaderboard as cells_of
from prmcal.db.reader import Source, reading
from prmcal.db.text import overview as texts
from prmcal.db.text.answer import answer, cautions, extent, winner
from prmcal.db.text.bars import bars
from prmcal.db.text.board import Board, Column, groups_board, leaderboard_board
from prmcal.db.text.formats import LEADERBOARDS
from prmcal.db.text.health import summaries
from prmcal.errors import PrmcalError
from prmcal.harness.cli import options
from prmcal.harness.cli.options import option
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import UNLIMITED, fit, wrapped
from prmcal.registry.messages import meant

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("overview", *LEADERBOARDS)
_EXPLAIN = "Show the overview in full: its cautions in words, and the ranking with all columns and what they mean."
_BY = "Show the calibration cells by a field of the questions: subject, level, or another field of the data set's file."
_NAMES = (*SETTING, "strategy", "calibrator")
_IDENTITY = ("number", "strategy", "calibrator")
_SETTINGS = ("target", "level")
_COUNTS = ("questions", "rows", "independent")
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
    by: Annotated[str | None, option("FIELD", _BY)] = None,
    wide: options.WideOption = False,
    explain: Annotated[bool, typer.Option("--explain", help=_EXPLAIN)] = False,
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
    text = render_leaderboard(directory, table, output_format, filters=filters, width=width, explain=explain, by=by)
    typer.echo(text, nl=False)


def render_leaderboard(
    directory: Path,
    table: str = "overview",
    output_format: str = "table",
    *,
    filters: Mapping[str, Sequence[str]] | None = None,
    width: int | None = None,
    explain: bool = False,
    by: str | None = None,
) -> str:
    """Return a leaderboard of a run's folder. The parameters are the options of the command."""
    options.one_of("--table", table, TABLES)
    options.one_of("--format", output_format, options.FORMATS)
    if explain and (table != "overview" or output_format != "table"):
        raise PrmcalError("--explain is for the overview in words. Leave out --table and --format, or --explain.")
    if by and table not in ("overview", "calibration"):
        raise PrmcalError("--by is for the calibration leaderboard. Leave out --table.")
    with reading(RunFolder(directory).results()) as source:
        _check_filters(source, "calibration" if by else table, filters or {})
        names_by_kind: dict[str, Any] = dict(filters or {})
        if by:
            frame = by_group(source, by, **names_by_kind)
            text = partial(_groups_text, frame, by)
        elif table == "overview":
            ranked = overview(source, **names_by_kind)
            frame = ranking_frame(ranked)
            text = partial(explained_text if explain or width == UNLIMITED else overview_text, ranked, directory)
        elif table == "league":
            entries = league(source, **names_by_kind)
            frame = league_frame(entries)
            text = partial(_league_text, entries, directory)
        else:
            name: Leaderboard = "calibration" if table == "calibration" else "scaling"
            frame = cells_of(source, name, **names_by_kind)
            main_metrics = None if width == UNLIMITED else LEADERBOARDS[name].main_metrics
            board = leaderboard_board(frame, name, described_metrics(source), main_metrics)
            text = partial(board_text, board)
    return text(width) if output_format == "table" else options.exported(frame, output_format)


def overview_text(ranking: Overview, directory: Path, width: int | None = None) -> str:
    """Return the overview of a run: the answer, three numbers, the ranking, cautions, and what to read next."""
    folder = shlex.quote(str(directory))
    notes = [winner(of_calibrators(ranking))] if ranking.ranking else []
    titles = dict.fromkeys(title.lower() for title, _, _ in cautions(ranking))
    if titles:
        notes.append(f"Caution: {', '.join(titles)}.")
    paragraphs = [
        wrapped(f"{answer(ranking)} ({extent(ranking)})", width),
        _titled([(tile.title, tile.figure, tile.detail) for tile in texts.cards(ranking)], width),
        fit(bars(ranking), width).text if ranking.ranking else "",
        wrapped(" ".join(notes), width),
        f"Next: prmcal leaderboard {folder} --explain\n      prmcal dashboard {folder}",
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def explained_text(ranking: Overview, directory: Path, width: int | None = None) -> str:
    """Return the overview in full: what was measured, the findings in words, and the ranking with all columns."""
    folder = shlex.quote(str(directory))
    paragraphs = [
        wrapped(texts.measured(ranking), width),
        _titled([*summaries(ranking.health), *(tile[:3] for tile in texts.cards(ranking))], width),
        _ranked(texts.ranking_board(ranking), width) if ranking.ranking else "",
        _commands(
            f"prmcal leaderboard {folder} --table calibration   # or scaling, league",
            *_comparison(ranking, folder),
            f"prmcal dashboard {folder}",
        ),
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _titled(rows: Sequence[tuple[str, str, str]], width: int | None) -> str:
    """Return a paragraph for each row: its title, its figure and its meaning."""
    title_width = max((cell_len(title) for title, _, _ in rows), default=0) + 2
    figure_end = title_width + max((cell_len(figure) for _, figure, _ in rows), default=0) + 2
    indent = " " * figure_end
    return "\n".join(
        f"{title:{title_width}}{figure:{figure_end - title_width}}{wrapped(detail, width, indent=indent)[figure_end:]}"
        for title, figure, detail in rows
    )


def _league_text(entries: League, directory: Path, width: int | None) -> str:
    """Return the league of a run."""
    if not entries.rows:
        nothing = "There are no such cells. Add 'league: true' to the grid file if it has no league."
        return wrapped(texts.league_measured(entries) if any(entries.counts.values()) else nothing, width) + "\n"
    folder = shlex.quote(str(directory))
    commands = f"prmcal leaderboard {folder} --table league --llm NAME", f"prmcal dashboard {folder}   # page League"
    sentences = wrapped(texts.league_measured(entries), width), wrapped(texts.league_sentence(entries), width)
    return "\n\n".join([*sentences, _ranked(texts.league_board(entries), width), _commands(*commands)]) + "\n"


def _groups_text(frame: "pd.DataFrame", field: str, width: int | None) -> str:
    """Return the values by group, with a heading for each cell."""
    if frame.empty:
        return "There are no such cells.\n"
    board = groups_board(frame, field)
    headings = {
        int(place): f"#{cell.number} {cell.dataset}, {cell.llm}, {cell.prm}, {cell.calibrator}"
        for place, cell in frame.drop_duplicates("cell_id").iterrows()
    }
    return (
        options.table(board.columns, width, legend=[board.legend], options=["--format csv"], sections=headings) + "\n"
    )


def _ranked(board: Board, width: int | None) -> str:
    return options.table(board.columns, width, legend=[board.legend], options=["--format csv"])


def _commands(*commands: str) -> str:
    """Return commands that show more. They are not wrapped, so that they can be copied."""
    return "\n".join(["Next:", *(f"  {command}" for command in commands)])


def _comparison(ranking: Overview, folder: str) -> list[str]:
    """Return the command that compares the baseline with the best calibrator at the first setting that has both."""
    best = ranking.ranking[0].calibrator if ranking.ranking else ranking.baseline
    finished_cells = ranking.cells[ranking.cells["status"] == "done"]
    for _, cells in finished_cells.groupby(SETTING, sort=False):
        numbers = dict(zip(cells["calibrator"], cells["number"], strict=True))
        if best != ranking.baseline and {best, ranking.baseline} <= numbers.keys():
            return [f"prmcal compare {numbers[ranking.baseline]} {numbers[best]} --dir {folder}"]
    return []


def _check_filters(source: Source, table: str, filters: Mapping[str, Sequence[str]]) -> None:
    """Raise a PrmcalError if a filter does not apply to the table, or the grid has no such name."""
    grid_plugins = plugins(source)
    for kind, names in filters.items():
        if table == "overview" and kind in ("calibrator", "strategy"):
            raise PrmcalError(
                f"--{kind} does not apply to the overview, which ranks all calibrators. "
                "Choose a table: --table calibration, scaling or league."
            )
        of_kind = list(grid_plugins.loc[grid_plugins["kind"] == kind, "name"])
        for name in names:
            if name not in of_kind:
                hint = meant(name, of_kind, f"There are: {', '.join(of_kind) or 'none'}.")
                raise PrmcalError(f"--{kind}: the grid has no {kind} '{name}'. {hint}")


def board_text(board: Board, width: int | None = None) -> str:
    """Return a table of cells with its legend and its notes."""
    columns_of = {column.key: column for column in board.columns if any(column.values)}
    if not columns_of:
        return "There are no such cells.\n"
    # Rows of strategies without C or β do not count.
    values_of = {
        key: {value for value in column.values if value or key not in _SETTINGS} for key, column in columns_of.items()
    }
    same_keys = [key for key in _SHARED if len(values_of.get(key, ())) == 1]
    setting_columns = [columns_of[key] for key in SETTING if key in columns_of and key not in same_keys]
    setting_names = list(zip(*(column.values for column in setting_columns), strict=True)) or [()] * len(board.rows)
    groups = [list(rows) for _, rows in itertools.groupby(range(len(setting_names)), setting_names.__getitem__)]
    notes_above, headings, left_out = [], {}, set(same_keys)
    if len(groups) < len(board.rows) and setting_columns:
        counts = [columns_of[key] for key in _COUNTS if key in columns_of]
        counts = [count for count in counts if all(len({count.values[row] for row in rows}) == 1 for rows in groups)]
        left_out |= {column.key for column in (*setting_columns, *counts)}
        notes_above.append(f"Headings: {', '.join(column.title for column in setting_columns)}.")
        for row, *_ in groups:
            numbers = ", ".join(f"{count.values[row]} {count.title.lower()}" for count in counts)
            heading = ", ".join(filter(None, (column.values[row] for column in setting_columns)))
            headings[row] = f"{heading} ({numbers})" if numbers else heading
    if same_keys and len(board.rows) > 1:
        notes_above.append(f"In all rows: {', '.join(_shared_value(columns_of[key]) for key in same_keys)}.")
    if "independent" in columns_of:
        column = columns_of["independent"]
        worth = [text for _, text in sorted(zip(column.numbers, column.values, strict=True)) if text]
        notes_above.append(f"The prefixes of a row are worth {worth[0]} to {worth[-1]} independent ones.")
    weights = _weights(board)
    visible = [
        replace(column, weight=weights[key], whole=key not in _NAMES)
        for key, column in columns_of.items()
        if key not in left_out and key in weights
    ]
    table = options.table(visible, width, legend=[board.legend], options=["--format csv"], sections=headings)
    paragraphs = [wrapped(" ".join(notes_above), width)] if notes_above else []
    return "\n\n".join([*paragraphs, table, *(wrapped(note, width) for note in board.notes)]) + "\n"


def _weights(board: Board) -> dict[str, int]:
    """Return the weight of each column: 0 if it must stay, more if it is left out earlier."""
    metrics = [key for key in board.keys[board.names :] if key not in (*_COUNTS, "status")]
    order = [*SETTING, *_SETTINGS, *metrics[1:], "status", *_COUNTS]
    required_keys = {key: 0 for key in (*_IDENTITY, *(metrics[:1] or ["status"])) if key in board.keys}
    return {key: place for place, key in enumerate(order, start=1) if key in board.keys} | required_keys


def _shared_value(column: Column) -> str:
    value = next(filter(None, column.values))
    if column.key == "status":
        return value
    return f"{column.title} {value}{'' if all(column.values) else ' (if the strategy has one)'}"
