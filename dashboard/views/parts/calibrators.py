"""All calibrators of one group on page Calibration: reliability curves, coverage, and a comparison by one metric."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.calibration import coverage_chart, interval_chart, reliability_chart
from prmcal.dashboard.charts.cells import interval_rows, rows_of_group
from prmcal.dashboard.charts.findings import RELIABILITY, best_and_worst, covered, draw
from prmcal.dashboard.controls.cells import choose_group
from prmcal.dashboard.controls.options import choose_metric
from prmcal.dashboard.controls.selection import GridNames
from prmcal.dashboard.data import ask, ask_cells
from prmcal.dashboard.formats import estimates, names
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.charts import Series, colour_scale, series_of, shape_scale
from prmcal.db.metrics import COVERAGE_LEVELS, Metrics
from prmcal.db.statistics.paired import SIGNIFICANCE

__all__ = ["show_calibrators"]


def show_calibrators(path: Path, cells: pd.DataFrame, grid: GridNames) -> None:
    """Show all calibrators of one data set, LLM and PRM side by side."""
    place = choose_group(path, "calibration")
    if place is None:
        return
    done = rows_of_group(cells[cells["status"] == "done"], place)
    if done.empty:
        st.info("No calibrator has been measured yet for this data set, LLM and PRM.")
        return
    described: Metrics = ask(path, "metrics")
    series = series_of(grid.calibrator, set(done["calibrator"]))
    left, right = st.columns(2)
    with left:
        st.header("Reliability curves")
        draw(
            reliability_chart(ask_cells(path, "reliability", done), series),
            best_and_worst(described["brier"], done)
            if "brier" in done
            else "Brier scores were not measured.",
        )
        st.caption(RELIABILITY)
    with right:
        st.header("Coverage of quantiles")
        _coverage(done, series)
    _comparison(done, grid, described)


def _coverage(done: pd.DataFrame, series: Series) -> None:
    parts = []
    for metric, level in COVERAGE_LEVELS.items():
        measured = done.dropna(subset=[metric]) if metric in done else done.head(0)
        if measured.empty:
            continue
        parts.append(
            pd.DataFrame(
                {
                    "calibrator": measured["calibrator"],
                    "level": level,
                    "nominal": 1 - level,
                    "coverage": measured[metric],
                    "low": measured[f"{metric}_low"],
                    "high": measured[f"{metric}_high"],
                    "n": measured["questions"],
                }
            )
        )
    if not parts:
        st.info("No coverage was measured.")
        return
    rows = pd.concat(parts, ignore_index=True)
    draw(coverage_chart(rows, series), covered(rows))
    st.caption(
        "Coverage: share of prefixes whose success probability is at least the predicted quantile of level β. The "
        "ideal coverage is 1 \N{MINUS SIGN} β (dashed line). A point estimate has the same coverage at every β. Points "
        "are shifted sideways so that they do not overlap. Vertical lines: 95% intervals."
    )


def _comparison(done: pd.DataFrame, grid: GridNames, described: Metrics) -> None:
    st.header("Comparison of calibrators")
    known = [each.name for each in described.of("calibration") if each.better]
    metric = choose_metric("Metric", known, "metric", described)
    measured = done.dropna(subset=[metric.name])
    rows = interval_rows(measured, metric.name).assign(group="")
    colours = colour_scale(grid.calibrator, set(measured["calibrator"]))
    shapes = shape_scale(grid.llm, set(measured["llm"]))
    draw(
        interval_chart(rows, metric.title, colours, shapes, zero=metric.better == "near zero"),
        best_and_worst(metric, measured),
    )
    show_table(
        {
            "Calibrator": names(measured["calibrator"]),
            metric.title: estimates(rows[["value", "low", "high"]]),
            "Letters": names(measured[f"{metric.name}_letters"]),
        }
    )
    st.caption(
        f"{metric.description} Calibrators that share a letter are not significantly different (paired comparison, "
        f"p \N{GREATER-THAN OR EQUAL TO} {SIGNIFICANCE} after Holm's correction)."
    )
