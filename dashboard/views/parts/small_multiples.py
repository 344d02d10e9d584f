"""One PRM and calibrator with all LLMs and data sets, on page Calibration."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.calibration import small_reliability_diagram
from prmcal.dashboard.charts.style import colour_scale, draw, shape_scale
from prmcal.dashboard.controls.cells import choose_of
from prmcal.dashboard.controls.selection import GridNames
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.captions import BINS, RELIABILITY
from prmcal.dashboard.text.formats import escaped

__all__ = ["show_small_multiples"]


def show_small_multiples(path: Path, cells: pd.DataFrame, grid: GridNames) -> None:
    """Show a reliability diagram for each LLM and data set."""
    place = choose_of(path, ("prm", "calibrator"))
    if place is None:
        return
    calibrator = place["calibrator"]
    chosen = cells[(cells["prm"] == place["prm"]) & (cells["calibrator"] == calibrator)]
    colours = colour_scale(grid.calibrator, [calibrator])
    for dataset in grid.dataset:
        st.subheader(escaped(dataset))
        with st.container(horizontal=True):
            for row in chosen[chosen["dataset"] == dataset].itertuples():
                if row.status != "done":
                    st.info(f"{escaped(row.llm)}: {row.status}")
                    continue
                bins = ask(path, "reliability", cell_id=row.cell_id)
                draw(
                    small_reliability_diagram(bins, colours, shape_scale(grid.llm, [row.llm]), row.llm),
                    f"Reliability diagram of {row.llm} on {dataset}",
                    wide=False,
                )
    st.caption(f"{RELIABILITY} {BINS}")
