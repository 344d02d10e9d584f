"""Page Calibration: one cell, all calibrators of one group, or one calibrator with all LLMs and data sets."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from prmcal.dashboard.controls.options import choose_view
from prmcal.dashboard.controls.selection import grid_names
from prmcal.dashboard.data import ask
from prmcal.dashboard.views.parts.calibrators import show_calibrators
from prmcal.dashboard.views.parts.cell import show_cell
from prmcal.dashboard.views.parts.small_multiples import show_small_multiples

__all__ = ["show"]


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Calibration")
    cells = ask(path, "leaderboard", table="calibration")
    if cells.empty:
        st.info("This run has no calibration cells.")
        return
    views = {
        "One cell": show_cell,
        "Calibrators": show_calibrators,
        "All LLMs and data sets": show_small_multiples,
    }
    views[choose_view(list(views))](path, cells, grid_names(path))
