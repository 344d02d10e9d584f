"""The overview as text of the terminal: what was measured, the findings, the ranking, and what to read next."""

from __future__ import annotations

import shlex
from pathlib import Path

from prmcal.db.overview.ranking import PLACE
from prmcal.db.overview.types import Overview
from prmcal.db.text.overview import measured, ranking_columns, ranking_legend, tiles
from prmcal.harness.cli.options import hidden_note
from prmcal.harness.terminal.prose import cell_width, wrapped
from prmcal.harness.terminal.tables import Column, fit

__all__ = ["overview_text"]

_IDENTITY = 2
"""The first columns of the ranking, which name the rank and the calibrator. They always stay."""


def overview_text(found: Overview, directory: Path, width: int | None = None) -> str:
    """Return the overview of a run.

    Parameters
    ----------
    found : Overview
    directory : Path or URL
        The output folder of the run, for the commands that show more.
    width : int, optional
        Default: the width of the terminal.
    """
    parts = [wrapped(measured(found), width)]
    titled = [(each.title, f"{each.figure}: {each.detail}") for each in tiles(found)]
    longest = max(cell_width(title) for title, _ in titled) + 2
    parts.append(
        "\n".join(wrapped(f"{title:{longest}}{text}", width, hanging=" " * longest) for title, text in titled)
    )
    if found.ranking:
        columns = [
            Column(each.title, each.values, 0 if place < _IDENTITY else each.weight)
            for place, each in enumerate(ranking_columns(found))
        ]
        fitted = fit(columns, width)
        below = [wrapped(ranking_legend(found), width)]
        if fitted.hidden:
            below.append(wrapped(hidden_note(fitted.hidden, "--format csv"), width))
        parts += [fitted.text, "\n".join(below)]
    parts.append("\n".join(["Next:", *(f"  {command}" for command in _next(found, directory))]))
    return "\n\n".join(parts) + "\n"


def _next(found: Overview, directory: Path) -> list[str]:
    """Return the commands that show more. They are not wrapped, so that they can be copied."""
    folder = shlex.quote(str(directory))
    commands = [f"prmcal leaderboard {folder} --table calibration   # or scaling, league, costs"]
    pair = _first_pair(found)
    if pair:
        commands.append(f"prmcal compare {pair[0]} {pair[1]} --dir {folder}")
    return [*commands, f"prmcal dashboard {folder}"]


def _first_pair(found: Overview) -> tuple[int, int] | None:
    """Return the short numbers of the baseline's cell and of the best calibrator's cell at the first place."""
    if not found.ranking or found.ranking[0].calibrator == found.baseline:
        return None
    done = found.cells[found.cells["status"] == "done"]
    for _, place in done.groupby(PLACE, sort=False):
        numbers = dict(zip(place["calibrator"], place["number"], strict=True))
        if found.baseline in numbers and found.ranking[0].calibrator in numbers:
            return int(numbers[found.baseline]), int(numbers[found.ranking[0].calibrator])
    return None
