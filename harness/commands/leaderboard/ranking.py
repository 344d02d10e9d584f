"""The overview as text of the terminal: what was measured, the findings, the ranking, and what to read next."""

from __future__ import annotations

from pathlib import Path

from prmcal.db.overview.types import Overview
from prmcal.db.text.overview import measured, ranking_columns, ranking_legend, tiles
from prmcal.harness.commands.output import hidden_note
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
    directory : Path
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
        below = [wrapped(ranking_legend(), width)]
        if fitted.hidden:
            below.append(wrapped(hidden_note(fitted.hidden, "--format csv"), width))
        parts += [fitted.text, "\n".join(below)]
    parts.append(
        wrapped(f"Details: prmcal leaderboard {directory} --table calibration, scaling or costs", width)
    )
    return "\n\n".join(parts) + "\n"
