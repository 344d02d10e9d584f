"""Choosing a cell, or a place (data set, LLM and PRM), by widgets that offer only what the run has.

Calibration cells and places are the choice of the context. Any other cell is picked by its identifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound, given, note
from prmcal.dashboard.controls.context import CHOICES, context_of
from prmcal.dashboard.data import ask
from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard
from prmcal.db.text.presentation import COORDINATE_TITLES, LEADERBOARDS

_PLACE = ("dataset", "llm", "prm")


def choose_cell(path: Path) -> dict[str, Any] | None:
    """Let the reader choose a cell of the calibration leaderboard by its data set, LLM, PRM and calibrator.

    Returns
    -------
    dict or None
        The cell: cell_id, llm, prm, calibrator, dataset, status, reason. None if the run has no such cells.
    """
    cells: pd.DataFrame = ask(catalog.cells, path)
    cells = cells[cells["leaderboard"] == "calibration"]
    return None if cells.empty else _choose(path, cells, CHOICES)


def choose_group(path: Path, leaderboard: Leaderboard) -> dict[str, str] | None:
    """Let the reader choose a place: one data set, one LLM and one PRM. Return None if the run has none.

    It offers the places of a leaderboard, or those of the others if this one has none.
    """
    return choose_of(path, _PLACE, leaderboard)


def choose_of(path: Path, kinds: Sequence[str], leaderboard: Leaderboard) -> dict[str, str] | None:
    """Let the reader choose one name of each of these kinds. Return None if no cell has a name of each."""
    cells: pd.DataFrame = ask(catalog.cells, path)
    named = cells.dropna(subset=list(kinds))
    if named.empty:
        return None
    own = named[named["leaderboard"] == leaderboard]
    chosen = _choose(path, named if own.empty else own, kinds)
    return {kind: str(chosen[kind]) for kind in kinds}


def _choose(path: Path, cells: pd.DataFrame, kinds: Sequence[str]) -> dict[str, Any]:
    """Show a select for each kind, with the names that go with those before it. Return the first cell that is left."""
    context = context_of(path)
    for cell in set(given("cell")) - set(ask(catalog.cells, path)["cell_id"]):
        note(f"There is no cell {cell!r} here. The page shows another cell instead.")
    for column, kind in zip(st.columns(len(kinds)), kinds, strict=True):
        names = list(dict.fromkeys(cells[kind]))
        first = next((name for name in context.preferred.get(kind, ()) if name in names), None)
        # Another data set has other questions, and another LLM other trajectories.
        resets = {"dataset": ["question", "trajectory"], "llm": ["trajectory"]}.get(kind, [])
        name = column.selectbox(COORDINATE_TITLES[kind], names, **bound(kind, names, first, resets=resets))
        cells = cells[cells[kind] == name]
    return dict(cells.iloc[0])


def choose_leaderboard(tables: Sequence[Leaderboard], *resets: str) -> Leaderboard:
    """Let the reader choose a leaderboard. By default, it is the one of the first cell that the parameters name.

    Parameters
    ----------
    tables : sequence of Leaderboard
    *resets : str
        Parameters with identifiers of cells, which another leaderboard does not have.
    """
    # An identifier begins with its leaderboard.
    named = [cell.partition("/")[0] for parameter in resets for cell in given(parameter)]
    chosen: Leaderboard = st.segmented_control(
        "Leaderboard",
        tables,
        format_func=lambda table: LEADERBOARDS[table].title,
        required=True,
        label_visibility="collapsed",
        **bound("leaderboard", tables, next((each for each in tables if each in named), None), resets=resets),
    )
    return chosen


def pick_cell(
    label: str, cells: pd.DataFrame, parameter: str, default: str, *, resets: Sequence[str] = ()
) -> str:
    """Let the reader pick one of these cells, whose identifier the parameter has. Return the identifier."""
    names = list(cells["cell_id"])
    return str(st.selectbox(label, names, **bound(parameter, names, default, resets=resets)))
