"""Page Calibration: one cell, or all calibrators of one group."""

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts import drawn as charts
from prmcal.dashboard.charts.curves import rows_of_group
from prmcal.dashboard.charts.trajectory import bin_counts, bin_errors, draw, extremes
from prmcal.dashboard.controls.context import CHOICES, choose, choose_group, grid_names
from prmcal.dashboard.controls.widgets import ask, ask_cells, bound, choose_view
from prmcal.dashboard.formats import CAPTIONS, escaped, estimates, integer, number
from prmcal.dashboard.views.shared import best_first, choose_drawn, show_jobs, show_status, show_table
from prmcal.db import catalog
from prmcal.db.charts import Series, series_of
from prmcal.db.metrics import RANKING_METRIC, Metrics
from prmcal.db.queries.cells import CellDetail
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.formats import source_lines

_SELECT_WIDTH = 260  # pixels


def show_calibrators(path: Path, cells: pd.DataFrame, grid: dict[str, list[str]]) -> None:
    """Show all calibrators of one data set, LLM and PRM side by side."""
    place = choose_group(path, "calibration")
    if place is None:
        return
    done = rows_of_group(cells[cells["status"] == "done"], place)
    if done.empty:
        st.info("No calibrator has been measured yet for this data set, LLM and PRM.")
        return
    described: Metrics = ask(catalog.metrics, path)
    done = best_first(done, described[RANKING_METRIC])
    drawn = done[done["calibrator"].isin(choose_drawn(path, list(done["calibrator"])))]
    series = series_of(grid["calibrator"], set(drawn["calibrator"]))
    left, right = st.columns(2)
    with left:
        st.header("Reliability curves")
        chart = charts.reliability_chart(ask_cells(catalog.reliability, path, drawn), series)
        scores = drawn.reindex(columns=["brier"])["brier"]
        draw(chart, extremes("Brier score", drawn["calibrator"], scores))
        st.caption(CAPTIONS["reliability"])
    with right:
        _comparison(done, grid, described)


def _comparison(done: pd.DataFrame, grid: dict[str, list[str]], described: Metrics) -> None:
    st.header("Comparison of calibrators")
    known = [each.name for each in described.of("calibration") if each.better]
    chosen = st.selectbox(
        "Metric", known, format_func=described.title, width=_SELECT_WIDTH, **bound("metric", known)
    )
    metric = described[chosen]
    measured = best_first(done.dropna(subset=[chosen]), metric)
    own = measured["calibrator"]
    ends = {chosen: "value", f"{chosen}_low": "low", f"{chosen}_high": "high", "questions": "n"}
    rows = measured[list(ends)].rename(columns=ends).assign(label=own, series=own)
    series = series_of(grid["calibrator"], set(own))
    chart = charts.interval_chart(rows, metric.title, series, zero=metric.better == "near zero")
    draw(chart, extremes(metric.title, own, measured[chosen]))
    shown, letters = estimates(rows[["value", "low", "high"]]), measured[f"{chosen}_letters"]
    show_table({"Calibrator": own, metric.title: shown, "Letters": letters})
    st.caption(
        f"{metric.description} Calibrators that share a letter are not significantly different (paired comparison, "
        f"p \N{GREATER-THAN OR EQUAL TO} {SIGNIFICANCE} after Holm's correction)."
    )


def show_provenance(detail: CellDetail) -> None:
    """Show the jobs and the versions from which a cell was computed."""
    st.header("Provenance")
    st.caption(escaped(" ".join(source_lines(detail.cell, detail.run))))
    with st.expander(f"{len(detail.jobs)} jobs"):
        show_jobs(detail.jobs)
    with st.expander("Versions of plugins and data sets"):
        plugins = {f"{row.kind} {row.name}": row.identity for row in detail.plugins.itertuples()}
        datasets = {f"{row.name} ({row.split})": row.content_hash for row in detail.datasets.itertuples()}
        st.json({"plugins": plugins, "content hashes of data sets": datasets}, expanded=True)


def show_cell(path: Path, cells: pd.DataFrame, grid: dict[str, list[str]]) -> None:
    """Show the calibration of one cell."""
    chosen = choose(path, CHOICES, "calibration")
    if chosen is None:
        return
    detail: CellDetail = ask(catalog.cell, path, cell_id=chosen["cell_id"])
    st.caption(f"Cell {escaped(chosen['cell_id'])}")
    show_status(detail.cell)
    if detail.cell["status"] == "done":
        _diagrams(path, cells, detail, grid)
        _metric_table(detail, ask(catalog.metrics, path))
    show_provenance(detail)


def _diagrams(path: Path, cells: pd.DataFrame, detail: CellDetail, grid: dict[str, list[str]]) -> None:
    cell = detail.cell
    bins = ask(catalog.reliability, path, cell_id=cell["cell_id"])
    both = _with_uncalibrated(path, cells, cell["cell_id"])
    series = series_of(grid["calibrator"], set(both["calibrator"]))
    own = series_of(grid["calibrator"], [cell["calibrator"]])
    left, right = st.columns(2)
    with left:
        st.header("Reliability diagram")
        draw(charts.reliability_chart(ask_cells(catalog.reliability, path, both), series), bin_errors(bins))
        draw(charts.prefix_histogram(bins, own), bin_counts(bins))
        st.caption(f"{CAPTIONS['reliability']} {CAPTIONS['bins']}")
    with right:
        st.header("Signed error")
        _signed_errors(path, both, cell["calibrator"], series)


def _with_uncalibrated(path: Path, cells: pd.DataFrame, cell_id: str) -> pd.DataFrame:
    """Return the cell of the uncalibrated rewards at the place of a cell, if there is one, and the cell."""
    group = rows_of_group(cells[cells["status"] == "done"], cells.set_index("cell_id").loc[cell_id])
    before = group[group["calibrator"].isin(ask(catalog.with_role, path, role="baseline")[:1])]
    return pd.concat([before, group[group["cell_id"] == cell_id]]).drop_duplicates("cell_id")


def _signed_errors(path: Path, shown: pd.DataFrame, calibrator: str, series: Series) -> None:
    bins = ask_cells(catalog.signed_errors, path, shown)
    means = shown.rename(columns={"signed_error": "value"})[["calibrator", "value"]]
    finding = extremes("Mean signed error", means["calibrator"], means["value"])
    draw(charts.signed_error_histogram(bins, means, series), finding)
    prefixes = bins[bins["calibrator"] == calibrator]["count"].sum()
    listed = ", ".join(f"{escaped(row.calibrator)} {number(row.value)}" for row in means.itertuples())
    st.caption(
        f"Signed errors of {integer(prefixes)} prefixes. Solid lines: mean signed error ({listed}). Dashed line: 0."
    )


def _metric_table(detail: CellDetail, described: Metrics) -> None:
    results = detail.results
    overall = results[results["question_level"].isna()].set_index("metric")
    overall = overall.loc[described.ordered(overall.index)]
    st.header("Metrics")
    show_table(
        {
            "Metric": [described.title(name) for name in overall.index],
            "Value (95% interval)": estimates(overall[["value", "low", "high"]]),
            "Questions": overall["questions"],
            "Prefixes": overall["rows"],
            "Definition": [described[name].description for name in overall.index],
        }
    )


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Calibration")
    cells = ask(catalog.leaderboard, path, table="calibration")
    if cells.empty:
        st.info("This run has no calibration cells.")
        return
    views = {"One cell": show_cell, "Calibrators": show_calibrators}
    views[choose_view(list(views))](path, cells, grid_names(path))
