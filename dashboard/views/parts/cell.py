"""One calibration cell on page Calibration: reliability diagram, signed errors, metrics, provenance."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.calibration import prefix_histogram, reliability_chart, signed_error_histogram
from prmcal.dashboard.charts.cells import rows_of_group
from prmcal.dashboard.charts.findings import BINS, RELIABILITY, draw, fullest, overestimated, reliable
from prmcal.dashboard.controls.cells import choose_cell
from prmcal.dashboard.controls.selection import GridNames
from prmcal.dashboard.data import ask, ask_cells
from prmcal.dashboard.formats import (
    MISSING,
    escaped,
    estimates,
    integer,
    integers,
    number,
    numbers,
    with_line_breaks,
)
from prmcal.dashboard.views.parts.provenance import show_provenance
from prmcal.dashboard.views.parts.status import show_status
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.charts import series_of
from prmcal.db.metrics import Metrics
from prmcal.db.queries.cells import CellDetail

__all__ = ["show_cell"]

_WORDS = 7


def show_cell(path: Path, cells: pd.DataFrame, grid: GridNames) -> None:
    """Show the calibration of one cell."""
    chosen = choose_cell(path)
    if chosen is None:
        return
    detail: CellDetail = ask(path, "cell", cell_id=chosen["cell_id"])
    st.caption(f"Cell {escaped(chosen['cell_id'])}")
    show_status(detail.cell)
    if detail.cell["status"] == "done":
        _diagrams(path, cells, detail, grid)
        _metrics(detail, ask(path, "metrics"))
    show_provenance(detail)


def _diagrams(path: Path, cells: pd.DataFrame, detail: CellDetail, grid: GridNames) -> None:
    cell = detail.cell
    bins = ask(path, "reliability", cell_id=cell["cell_id"])
    series = series_of(grid.calibrator, [cell["calibrator"]])
    left, right = st.columns(2)
    with left:
        st.header("Reliability diagram")
        draw(reliability_chart(bins.assign(calibrator=cell["calibrator"]), series), reliable(bins))
        draw(prefix_histogram(bins, series), fullest(bins))
        st.caption(f"{RELIABILITY} {BINS}")
    with right:
        st.header("Signed error")
        _signed_errors(path, cells, cell["cell_id"], grid)
    with st.expander("Bins"):
        success = estimates(bins[["mean_success", "low", "high"]])
        show_table(
            {
                "Reward": [f"{number(row.lower, 2)} to {number(row.upper, 2)}" for row in bins.itertuples()],
                "Prefixes": integers(bins["count"]),
                "Mean reward": numbers(bins["mean_reward"]),
                "Success rate": [
                    text if count else MISSING for text, count in zip(success, bins["count"], strict=True)
                ],
            }
        )


def _signed_errors(path: Path, cells: pd.DataFrame, cell_id: str, grid: GridNames) -> None:
    """Show the signed errors of a cell and those of the uncalibrated rewards of its PRM."""
    own = cells.set_index("cell_id").loc[cell_id]
    group = rows_of_group(cells[cells["status"] == "done"], own)
    before = group[group["calibrator"].isin(ask(path, "with_role", role="baseline")[:1])]
    shown = pd.concat([before, group[group["cell_id"] == cell_id]]).drop_duplicates("cell_id")
    bins = ask_cells(path, "signed_errors", shown)
    means = shown.rename(columns={"signed_error": "value"})[["calibrator", "value"]]
    draw(
        signed_error_histogram(bins, means, series_of(grid.calibrator, set(shown["calibrator"]))),
        overestimated(means),
    )
    prefixes = bins[bins["calibrator"] == own["calibrator"]]["count"].sum()
    listed = ", ".join(f"{escaped(row.calibrator)} {number(row.value)}" for row in means.itertuples())
    st.caption(
        f"Signed errors of {integer(prefixes)} prefixes. Solid lines: mean signed error ({listed}). Dashed line: 0."
    )


def _metrics(detail: CellDetail, described: Metrics) -> None:
    results = detail.results
    overall = results[results["question_level"].isna()].set_index("metric")
    overall = overall.loc[described.ordered(overall.index)]
    st.header("Metrics")
    show_table(
        {
            "Metric": [described.title(name) for name in overall.index],
            "Value (95% interval)": estimates(overall[["value", "low", "high"]]),
            "Questions": integers(overall["questions"]),
            "Prefixes": integers(overall["rows"]),
            "Definition": [with_line_breaks(described.description(name), _WORDS) for name in overall.index],
        }
    )
