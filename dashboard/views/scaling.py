"""Page Scaling: accuracy against cost, by difficulty, and risk against coverage, for one data set, LLM and PRM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st

from prmcal.dashboard.controls.cells import choose_group
from prmcal.dashboard.controls.options import choose_view
from prmcal.dashboard.controls.selection import grid_names
from prmcal.dashboard.controls.sliders import connect_sliders
from prmcal.dashboard.data import ask
from prmcal.dashboard.views.parts.scaling.budget import show_budget
from prmcal.dashboard.views.parts.scaling.difficulty import show_difficulty
from prmcal.dashboard.views.parts.scaling.equal_cost import show_equal_cost
from prmcal.dashboard.views.parts.scaling.risk import show_risk
from prmcal.db.queries.curves import ExactCurves

__all__ = ["show"]


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Scaling")
    grid = grid_names(path)
    left, row = st.columns([3, 2])
    with left:
        group = choose_group(path, "scaling")
    if group is None:
        st.info("This run has no scaling cells.")
        return
    choices = st.container(horizontal=True)
    views: dict[str, Callable[..., None]] = {
        "Budget": partial(show_budget, choices=choices),
        "Equal cost": show_equal_cost,
        "Difficulty": show_difficulty,
        "Risk and coverage": show_risk,
    }
    with choices:
        view = choose_view(list(views))
    pool: ExactCurves | None = ask(path, "exact_curves", **group)
    if pool is None:
        st.info("The scaling curves of this data set, LLM and PRM have not been computed yet.")
        return
    views[view](path, grid, group, pool, row)
    connect_sliders()
