"""Page Overview, the landing page: what was found, the ranking of the calibrators, and a heat map of all places."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from prmcal.dashboard.controls.context import CHOICES, choose_tier, context_of, filter_by, grid_names
from prmcal.dashboard.data import ask
from prmcal.dashboard.views.shared import show_html
from prmcal.db import catalog
from prmcal.db.html.overview import overview_html
from prmcal.db.overview.types import Overview


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Overview")
    filters = filter_by(grid_names(path), "dataset", "llm", "prm")
    found: Overview = ask(catalog.overview, path, **filters, tier=choose_tier(path))
    context = context_of(path)
    cells = found.cells.set_index("cell_id")

    def link(cell_id: str) -> str:
        return context.link("calibration", **{kind: cells.at[cell_id, kind] for kind in CHOICES})

    show_html(overview_html(found, link))
