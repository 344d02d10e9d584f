"""One PRM and calibrator with all LLMs and data sets, on page Calibration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.calibration import prefix_histogram, reliability_chart
from prmcal.dashboard.charts.findings import BINS, RELIABILITY, draw, fullest, reliable
from prmcal.dashboard.controls.cells import choose_of
from prmcal.dashboard.controls.selection import GridNames
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import escaped
from prmcal.db.charts import series_of

__all__ = ["show_small_multiples"]

_IN_A_ROW = 3


def show_small_multiples(path: Path, cells: pd.DataFrame, grid: GridNames) -> None:
    """Show a reliability diagram for each LLM and data set."""
    place = choose_of(path, ("prm", "calibrator"), "calibration")
    if place is None:
        return
    chosen = cells[(cells["prm"] == place["prm"]) & (cells["calibrator"] == place["calibrator"])]
    for dataset in grid.dataset:
        st.header(escaped(dataset))
        own = list(chosen[chosen["dataset"] == dataset].itertuples())
        for first in range(0, len(own), _IN_A_ROW):
            for column, row in zip(st.columns(_IN_A_ROW), own[first : first + _IN_A_ROW], strict=False):
                with column:
                    _diagram(path, row, dataset, grid)
    st.caption(f"{RELIABILITY} {BINS}")


def _diagram(path: Path, row: Any, dataset: str, grid: GridNames) -> None:
    st.markdown(f"**{escaped(row.llm)}**")
    if row.status != "done":
        st.info(f"{escaped(row.llm)}: {row.status}")
        return
    bins = ask(path, "reliability", cell_id=row.cell_id)
    series = series_of(grid.calibrator, [row.calibrator])
    diagram = reliability_chart(bins.assign(calibrator=row.calibrator), series, small=True)
    draw(diagram, f"{row.llm} on {dataset}: {reliable(bins)}")
    draw(prefix_histogram(bins, series), f"{row.llm} on {dataset}: {fullest(bins)}")
