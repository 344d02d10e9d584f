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
from prmcal.dashboard.controls.context import context_of
from prmcal.dashboard.data import ask
from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard
from prmcal.db.text.presentation import COORDINATE_TITLES, LEADERBOARDS

_PLACE = ("dataset", "llm", "prm")


def choose(path: Path, kinds: Sequence[str], leaderboard: Leaderboard) -> dict[str, Any] | None:
    """Show a select for each kind, with the names that go with those before it. Return the first cell with these names.

    It offers the names of a leaderboard, or those of the others if this one has none. None if no cell has a name of
    each.
    """
    known: pd.DataFrame = ask(catalog.cells, path)
    context = context_of(path)
    for cell in set(given("cell")) - set(known["cell_id"]):
        note(f"There is no cell {cell!r} here. The page shows another cell instead.")
    cells = known.dropna(subset=list(kinds))
    if cells.empty:
        return None
    own = cells[cells["leaderboard"] == leaderboard]
    cells = cells if own.empty else own
    for column, kind in zip(st.columns(len(kinds)), kinds, strict=True):
        names = list(dict.fromkeys(cells[kind]))
        first = next((name for name in context.preferred.get(kind, ()) if name in names), None)
        # Another data set has other questions, and another LLM other trajectories.
        resets = {"dataset": ["question", "trajectory"], "llm": ["trajectory"]}.get(kind, [])
        name = column.selectbox(COORDINATE_TITLES[kind], names, **bound(kind, names, first, resets=resets))
        cells = cells[cells[kind] == name]
    return dict(cells.iloc[0])


def choose_group(path: Path, leaderboard: Leaderboard) -> dict[str, str] | None:
    """Let the reader choose a place: one data set, one LLM and one PRM. Return None if the run has none."""
    cell = choose(path, _PLACE, leaderboard)
    return None if cell is None else {kind: str(cell[kind]) for kind in _PLACE}


def choose_leaderboard(tables: Sequence[Leaderboard], *resets: str) -> Leaderboard:
    """Let the reader choose a leaderboard. By default, it is the one of the first cell that the parameters name.

    The parameters `resets` have identifiers of cells, which another leaderboard does not have.
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
