"""``prmcal leaderboard``: the overview, the leaderboards, the league and the costs, as text, JSON, CSV or Markdown.

choice     the cells and columns that the reader asks for
board      cells as a table of the terminal
ranking    the overview as text of the terminal
entries    the league as text of the terminal
provenance what is said below a table of rows that are not current, or that a verification found wrong
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard
from prmcal.db.overview.league import league, league_frame
from prmcal.db.overview.query import overview, ranking_frame
from prmcal.db.queries.leaderboard import costs, leaderboard
from prmcal.db.text.league import league_table
from prmcal.db.text.overview import ranking_table
from prmcal.db.text.presentation import LEADERBOARDS, MARKS, SECONDS_LEGEND, leaderboard_legend
from prmcal.db.text.readable import readable_costs, readable_leaderboard
from prmcal.errors import PrmcalError
from prmcal.harness.cli.options import FORMATS, exported, one_of
from prmcal.harness.cli.results.leaderboard.board import board_text
from prmcal.harness.cli.results.leaderboard.choice import (
    check_filters,
    chosen_metrics,
    chosen_tier,
    only,
)
from prmcal.harness.cli.results.leaderboard.entries import league_text
from prmcal.harness.cli.results.leaderboard.provenance import provenance_notes
from prmcal.harness.cli.results.leaderboard.ranking import overview_text
from prmcal.harness.storage.folder import RunFolder

__all__ = ["TABLES", "render_leaderboard"]

TABLES = ("overview", *LEADERBOARDS, "costs")
_COSTS_LEGEND = (
    f"Costs per question / over all questions. {SECONDS_LEGEND} Costs that are not known are empty."
)


def render_leaderboard(
    directory: Path,
    table: str = "overview",
    output_format: str = "table",
    *,
    filters: Mapping[str, Sequence[str]] | None = None,
    tier: str | None = None,
    columns: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """Return a leaderboard of a run's folder in one of the formats.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    table : {"overview", "calibration", "scaling", "league", "costs"}
    output_format : {"table", "json", "csv", "markdown"}
        ``table`` leaves out columns that the terminal has no space for.
    filters : mapping of str to sequence of str, optional
        Names to keep, by llm, prm, calibrator, dataset or strategy. Cells without a plugin of the kind stay.
    tier : str, optional
        Keep only cells of a merged leaderboard that were verified at this tier or at a higher one.
    columns : sequence of str, optional
        Metrics and other columns to show, the most important first. Default: the main metrics in a table, else all.
    width : int, optional
        Width of a table. Default: that of the terminal.

    Raises
    ------
    PrmcalError
        If there is no such table, format, name, tier or column, no grid was run in the folder, or `tier` is given for
        a folder that is not a merged leaderboard.
    DatabaseError
        If there is no readable database.
    """
    one_of("--table", table, TABLES)
    one_of("--format", output_format, FORMATS)
    published = RunFolder(directory).results()
    names = {kind: list(names) for kind, names in (filters or {}).items() if names}
    check_filters(published, names)
    kept: dict[str, Any] = {**names, "tier": chosen_tier(published, directory, tier)}
    if table == "overview":
        return _overview(directory, published, kept, columns, output_format, width)
    if table == "league":
        return _league(directory, published, kept, columns, output_format, width)
    if table == "costs":
        frame = costs(published, **kept)
        if output_format in ("csv", "json"):
            return exported(only(frame, columns), output_format)
        found = readable_costs(frame)
        chosen_metrics(found.keys, columns)
        if output_format == "markdown":
            return found.markdown()
        return board_text(found, _COSTS_LEGEND, columns=columns, width=width)
    name: Leaderboard = "scaling" if table == "scaling" else "calibration"
    frame = leaderboard(published, name, **kept)
    if output_format in ("csv", "json"):
        return exported(only(frame, columns), output_format)
    described = catalog.metrics(published)
    everything = readable_leaderboard(frame, name, described)
    metrics = chosen_metrics(everything.keys, columns, [each for each in frame if f"{each}_low" in frame])
    if output_format == "markdown":
        return (
            readable_leaderboard(frame, name, described, metrics).markdown()
            if columns
            else everything.markdown()
        )
    shown = metrics if columns else LEADERBOARDS[name].main_metrics
    found = readable_leaderboard(frame, name, described, shown)
    found = replace(found, notes=(*found.notes, *provenance_notes(frame)))
    return board_text(found, leaderboard_legend(MARKS), columns=columns, width=width)


def _league(
    directory: Path,
    published: Path,
    filters: Mapping[str, Any],
    columns: Sequence[str],
    output_format: str,
    width: int | None,
) -> str:
    if columns and output_format not in ("csv", "json"):
        raise PrmcalError(
            "--columns applies to the league only with --format csv or json. --wide shows all of its columns."
        )
    found = league(published, **filters)
    if output_format in ("csv", "json"):
        return exported(only(league_frame(found), columns), output_format)
    if output_format == "markdown":
        return league_table(found).markdown()
    filtered = any(value is not None for value in filters.values())
    return league_text(found, directory, width, filtered=filtered)


def _overview(
    directory: Path,
    published: Path,
    filters: Mapping[str, Any],
    columns: Sequence[str],
    output_format: str,
    width: int | None,
) -> str:
    for kind in ("calibrator", "strategy"):
        if kind in filters:
            raise PrmcalError(
                f"--{kind} does not apply to the overview, which ranks all calibrators. "
                "Choose a table: --table calibration, scaling, league or costs."
            )
    if columns:
        raise PrmcalError(
            "--columns does not apply to the overview. Choose a table: --table calibration, scaling, league or costs. "
            "--wide shows all columns of the overview."
        )
    found = overview(published, **filters)
    if output_format in ("csv", "json"):
        return exported(ranking_frame(found), output_format)
    if output_format == "markdown":
        return ranking_table(found).markdown()
    return overview_text(found, directory, width)
