"""Page Leaderboard: the calibration and scaling leaderboards, the costs of strategies, and the tables of the paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from prmcal.dashboard.controls.address import PAGE
from prmcal.dashboard.controls.options import choose_view
from prmcal.dashboard.controls.selection import grid_names
from prmcal.dashboard.views.parts.costs import show_costs
from prmcal.dashboard.views.parts.ranking import read_ahead, show_ranking
from prmcal.dashboard.views.parts.reported import show_reported

__all__ = ["read_ahead", "show"]


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Leaderboard")
    grid = grid_names(path)
    views: dict[str, Callable[[], None]] = {
        "Calibration": lambda: show_ranking(path, grid, "calibration"),
        "Scaling": lambda: show_ranking(path, grid, "scaling"),
        "Costs": lambda: show_costs(path, grid),
        "Paper": lambda: show_reported(path),
    }
    views[choose_view(list(views), "table", resets=[PAGE, "sort", "search", "columns", "row", "chart"])]()
