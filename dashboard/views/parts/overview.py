"""One PRM and calibrator with all LLMs and data sets, on page Calibration."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.calibration import small_reliability_diagram
from prmcal.dashboard.charts.style import colour_scale, draw, shape_scale
from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.selection import GridNames
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.captions import BINS, RELIABILITY
from prmcal.dashboard.text.findings import reliable
from prmcal.dashboard.text.formats import escaped

__all__ = ["show_overview"]


def show_overview(path: Path, cells: pd.DataFrame, grid: GridNames) -> None:
    """Show a reliability diagram for each LLM and data set."""
    left, right = st.columns(2)
    prm = left.selectbox("PRM", grid.prm, **bound("prm"))
    calibrator = right.selectbox("Calibrator", grid.calibrator, **bound("calibrator"))
    chosen = cells[(cells["prm"] == prm) & (cells["calibrator"] == calibrator)]
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
                    f"{row.llm} on {dataset}: {reliable(bins)}",
                )
    st.caption(f"{RELIABILITY} {BINS}")
