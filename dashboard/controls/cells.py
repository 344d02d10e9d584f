"""Choosing a cell of the calibration leaderboard, by the address or by select boxes in the sidebar.

The query parameter ``cell`` can also name a cell of the scaling leaderboard. The calibration cell with the same rewards
is then chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.data import ask
from prmcal.dashboard.text.formats import escaped
from prmcal.db.text.presentation import COORDINATE_TITLES
from prmcal.errors import UnknownCellError

__all__ = ["choose_cell"]

_KINDS = ("dataset", "llm", "prm", "calibrator")


def choose_cell(path: Path) -> dict[str, Any] | None:
    """Let the reader choose a cell of the calibration leaderboard.

    Returns
    -------
    dict or None
        The cell: cell_id, llm, prm, calibrator, dataset, status, reason. None if the run has no such cells.
    """
    cells: pd.DataFrame = ask(path, "calibration_cells")
    if cells.empty:
        return None
    current = _cell_of_address(path, cells, st.query_params.get("cell"))
    for kind in _KINDS:
        options = list(dict.fromkeys(cells[kind]))
        st.session_state[_key(kind)] = current[kind]
        st.sidebar.selectbox(
            COORDINATE_TITLES[kind], options, key=_key(kind), on_change=_write_address, args=(cells, kind)
        )
    return current


def _cell_of_address(path: Path, cells: pd.DataFrame, wanted: str | None) -> dict[str, Any]:
    """Return the calibration cell for the cell in the address. Without one, or for an unknown one, return the first."""
    if wanted is not None:
        try:
            cell_id = ask(path, "calibration_cell", cell_id=wanted)
            return dict(cells[cells["cell_id"] == cell_id].iloc[0])
        except UnknownCellError as error:
            st.warning(f"{escaped(str(error))} The page shows the first cell instead.")
    return dict(cells.iloc[0])


def _write_address(cells: pd.DataFrame, changed: str) -> None:
    """Write the chosen cell into the address.

    If the run lacks the combination of names, take the cell with the changed name that has most of the others.
    """
    chosen = {kind: st.session_state[_key(kind)] for kind in _KINDS}
    kept = cells[cells[changed] == chosen[changed]]
    matches = sum((kept[kind] == value).astype(int) for kind, value in chosen.items())
    st.query_params["cell"] = kept.loc[matches.idxmax(), "cell_id"]


def _key(kind: str) -> str:
    return f"chosen_{kind}"
