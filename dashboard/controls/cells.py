"""Choosing a cell: an address with ``cell=...`` names one of either leaderboard, choosers in the sidebar move on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.places import TITLES
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import plain
from prmcal.errors import UnknownCellError

__all__ = ["chosen_cell"]


def chosen_cell(path: Path) -> dict[str, Any] | None:
    """Let the reader choose a cell of the calibration leaderboard.

    Returns
    -------
    dict or None
        Its row: cell_id, llm, prm, calibrator, dataset, status, reason. None if the run has no such cells.
    """
    cells: pd.DataFrame = ask(path, "calibration_cells")
    if cells.empty:
        return None
    current = _named(path, cells, st.query_params.get("cell"))
    for kind, title in TITLES.items():
        options = list(dict.fromkeys(cells[kind]))
        key = f"chosen_{kind}"
        st.session_state[key] = current[kind]
        st.sidebar.selectbox(title, options, key=key, on_change=_move, args=(cells, kind))
    return current


def _named(path: Path, cells: pd.DataFrame, wanted: str | None) -> dict[str, Any]:
    """The cell of the address, the one that a scaling cell rests on, or the first."""
    if wanted is not None:
        try:
            rests_on = ask(path, "rewards_of", cell_id=wanted)
            return dict(cells[cells["cell_id"] == rests_on].iloc[0])
        except UnknownCellError as error:
            st.warning(f"{plain(str(error))} This is the first cell.")
    return dict(cells.iloc[0])


def _move(cells: pd.DataFrame, changed: str) -> None:
    """Go to the cell of the choosers, or where there is none to the nearest that has what was just chosen."""
    chosen = {kind: st.session_state[f"chosen_{kind}"] for kind in TITLES}
    kept = cells[cells[changed] == chosen[changed]]
    likeness = sum((kept[kind] == value).astype(int) for kind, value in chosen.items())
    st.query_params["cell"] = kept.loc[likeness.idxmax(), "cell_id"]
