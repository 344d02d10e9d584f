"""The table of costs on page Leaderboard."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.downloads import files_of, show_downloads
from prmcal.dashboard.controls.options import choose_option
from prmcal.dashboard.controls.paging import rows_of_page
from prmcal.dashboard.controls.selection import GridNames, choose_tier, filter_by
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import MISSING, coordinates, numbers
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.metrics import COSTS, Metrics
from prmcal.db.text.presentation import COORDINATE_TITLES, SECONDS_LEGEND
from prmcal.db.text.readable import readable_costs

__all__ = ["show_costs"]

_PER_QUESTION, _IN_TOTAL = "per question", "in total"


def show_costs(path: Path, grid: GridNames) -> None:
    """Show the cost of every strategy, per question or in total."""
    filters = filter_by(grid, "dataset", "llm", "prm", "calibrator")
    tier = choose_tier(path)
    total = choose_option("Costs", [_PER_QUESTION, _IN_TOTAL], "costs") == _IN_TOTAL
    cells = ask(path, "costs", tier=tier)
    for kind, kept in filters.items():
        if kept is not None:
            cells = cells[cells[kind].isin(kept) | cells[kind].isna()]
    if cells.empty:
        st.info("No cell matches the filters in the sidebar.")
        return
    columns = coordinates(cells, *COORDINATE_TITLES)
    described: Metrics = ask(path, "metrics")
    columns[described.title("accuracy")] = numbers(cells["accuracy"])
    for name in ("samples", *COSTS, "seconds"):
        columns[described.title(name)] = [
            _cost(value, total) for value in cells[f"{name}_total" if total else name]
        ]
    show_table(rows_of_page(pd.DataFrame(columns)))
    st.caption(
        f"{SECONDS_LEGEND} A dash means that the cost is unknown. Costs are not ranked, since a low cost alone does "
        "not make a strategy better."
    )
    show_downloads("costs", files_of(cells, readable_costs(cells)))


def _cost(value: float, total: bool) -> str:
    if pd.isna(value):
        return MISSING
    digits = 0 if total or value >= 100 else 2
    return f"{value:,.{digits}f}"
