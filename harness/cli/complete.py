"""What the shell completes: grids, cells, tables and formats. Nothing here may raise or import more than it needs."""

from __future__ import annotations

from pathlib import Path

import typer

from prmcal.harness.planning.grid_file.shipped import shipped_grids

__all__ = ["cells", "formats", "grids", "kinds", "tables", "tiers"]


def grids(incomplete: str) -> list[str]:
    """Return the shipped grids. If none begins with the text, the shell completes files."""
    return [name for name in shipped_grids() if name.startswith(incomplete)]


def cells(context: typer.Context, incomplete: str) -> list[str]:
    """Return the identifiers of cells in the folder that the command reads."""
    from prmcal.db.cell_names import numbered
    from prmcal.db.run_folder import published_path
    from prmcal.errors import PrmcalError

    directory = context.params.get("directory") or Path("runs/nano")
    if not isinstance(directory, str | Path):
        return []  # A server may take long to answer.
    try:
        known = numbered(published_path(Path(directory)))
    except PrmcalError:
        return []
    return [cell_id for cell_id in known if cell_id.startswith(incomplete)]


def tables(incomplete: str) -> list[str]:
    """Return the tables of the leaderboard."""
    return _matching(("overview", "calibration", "scaling", "league", "costs"), incomplete)


def tiers(incomplete: str) -> list[str]:
    """Return the tiers of verifications."""
    return _matching(("consistent", "graded again", "scored again", "reproduced"), incomplete)


def formats(incomplete: str) -> list[str]:
    """Return the formats of output."""
    return _matching(("table", "json", "csv", "markdown"), incomplete)


def kinds(incomplete: str) -> list[str]:
    """Return the kinds of plugins."""
    return _matching(("llm", "prm", "calibrator", "dataset", "strategy", "metric"), incomplete)


def _matching(known: tuple[str, ...], incomplete: str) -> list[str]:
    return [each for each in known if each.startswith(incomplete)]
