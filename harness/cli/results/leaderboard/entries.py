"""The league as text of the terminal: who is ahead, the ranking, and what to read next."""

from __future__ import annotations

import shlex
from pathlib import Path

from prmcal.db.overview.types import League
from prmcal.db.text.league import league_columns, league_legend, league_measured, league_sentence
from prmcal.harness.cli.options import hidden_note
from prmcal.harness.terminal.prose import wrapped
from prmcal.harness.terminal.tables import Column, fit

__all__ = ["league_text"]

_IDENTITY = 3
"""The first columns, which name the rank, the strategy and the calibrator. They always stay."""


def league_text(found: League, directory: Path, width: int | None = None, *, filtered: bool = False) -> str:
    """Return the league of a run.

    Parameters
    ----------
    found : League
    directory : Path or URL
        The output folder of the run, for the commands that show more.
    width : int, optional
        Default: the width of the terminal.
    filtered : bool
        Whether filters may have left out all rows.
    """
    if not found.rows:
        if any(found.counts.values()):
            return wrapped(league_measured(found), width) + "\n"
        if filtered:
            return "There are no such cells.\n"
        return (
            wrapped("The grid has no league. Add 'league: true' to the grid file and run it again.", width)
            + "\n"
        )
    columns = [
        Column(each.title, each.values, 0 if place < _IDENTITY else each.weight)
        for place, each in enumerate(league_columns(found))
    ]
    fitted = fit(columns, width)
    below = [wrapped(league_legend(found), width)]
    if fitted.hidden:
        below.append(wrapped(hidden_note(fitted.hidden, "--format csv"), width))
    folder = shlex.quote(str(directory))
    commands = [
        f"prmcal leaderboard {folder} --table league --llm NAME",
        f"prmcal dashboard {folder}   # page League",
    ]
    parts = [
        wrapped(league_measured(found), width),
        wrapped(league_sentence(found), width),
        fitted.text,
        "\n".join(below),
        "\n".join(["Next:", *(f"  {command}" for command in commands)]),
    ]
    return "\n\n".join(parts) + "\n"
