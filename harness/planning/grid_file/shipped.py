"""The grids that are part of the package, by name. What a grid file may contain belongs in `grid`."""

from __future__ import annotations

import difflib
from contextlib import suppress
from pathlib import Path

import prmcal
from prmcal.errors import GridError

__all__ = ["find_grid", "shipped_grids"]

_FOLDER = Path(prmcal.__file__).with_name("grids")


def shipped_grids() -> dict[str, Path]:
    """Return the names of the shipped grids and their files, sorted by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.yaml"), key=lambda path: path.stem)}


def find_grid(grid: str) -> Path:
    """Return the file of a grid.

    Parameters
    ----------
    grid : str
        The path of a file, or the name of a shipped grid such as ``nano``. A file of that name comes first.

    Raises
    ------
    GridError
        If there is neither such a file nor such a shipped grid.
    """
    path, shipped = Path(grid), shipped_grids()
    with suppress(OSError):  # a name that no file can have
        if path.exists() and not path.is_dir():
            return path
    if grid in shipped:
        return shipped[grid]
    close = difflib.get_close_matches(path.stem, shipped, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    raise GridError(
        f"There is no grid file {grid} and no shipped grid of that name.{hint} The shipped grids are "
        f"{', '.join(shipped)}."
    )
