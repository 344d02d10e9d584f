"""Page Runs: progress, failures, first results, jobs, plugins and data sets."""

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.curves import adaptive_points, fixed_points, levels_of, likest, rows_of_group
from prmcal.dashboard.charts.drawn import league_chart, reliability_chart
from prmcal.dashboard.charts.trajectory import draw, extremes
from prmcal.dashboard.controls import context
from prmcal.dashboard.controls.widgets import ask, ask_cells, bound
from prmcal.dashboard.formats import CAPTIONS, MISSING, escaped, integer
from prmcal.dashboard.views.shared import show_jobs, show_progress, show_table
from prmcal.db import catalog
from prmcal.db.charts import series_of
from prmcal.db.metrics import RANKING_METRIC
from prmcal.db.text.formats import duration

_ALL = "all kinds"


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Runs")
    runs = ask(catalog.runs, path)
    if runs.empty:
        st.info("This database has no runs.")
        return
    show_progress(path)
    _failures(ask(catalog.cells, path))
    _so_far(path)
    _history(runs)
    _jobs(path)
    _plugins_and_datasets(path)


def _failures(cells: pd.DataFrame) -> None:
    """Show why cells have failed, each reason once."""
    failed = cells[cells["status"] == "failed"].fillna({"reason": "no reason was recorded"})
    if len(failed):
        st.header("Failed")
        reasons = failed.groupby("reason", sort=False)["cell_id"].agg(["size", "first"]).reset_index()
        show_table({"Cells": reasons["size"], "Such as": reasons["first"], "Reason": reasons["reason"]})


def _so_far(path: Path) -> None:
    """Show calibration and accuracy at a place. The page is drawn again as results come in."""
    cells = ask(catalog.leaderboard, path, table="calibration")
    done = cells[cells["status"] == "done"]
    if done.empty:
        return
    st.header("Results so far")
    st.markdown(f"{integer(len(done))} of {integer(len(cells))} calibration cells are done.")
    place = context.choose_group(path, "calibration")
    here = rows_of_group(done, place) if place else done.head(0)
    if here.empty:
        st.info("No calibrator has been measured yet for this data set, LLM and PRM.")
        return
    assert place is not None
    best = likest(here, {}, ask(catalog.metrics, path)[RANKING_METRIC]).iloc[:1]
    before = here[here["calibrator"].isin(ask(catalog.with_role, path, role="baseline"))]
    shown = pd.concat([before, best]).drop_duplicates("cell_id")
    calibrators = context.grid_names(path)["calibrator"]
    left, right = st.columns(2)
    with left:
        finding = extremes("Brier score", shown["calibrator"], shown[RANKING_METRIC])
        draw(
            reliability_chart(
                ask_cells(catalog.reliability, path, shown),
                series_of(calibrators, set(shown["calibrator"])),
            ),
            finding,
        )
        st.caption(CAPTIONS["reliability"])
    with right:
        pool = ask(catalog.exact_curves, path, **place)
        if pool is None:
            st.info("The accuracy has not been measured yet for this data set, LLM and PRM.")
            return
        own = adaptive_points(pool, list(shown["calibrator"]), levels_of(pool)[0])
        points = pd.concat([fixed_points(pool), own]).rename(columns={"series": "entry", "n": "questions"})
        points = points.rename(columns=lambda name: name.replace("cost", "samples"))
        highest = points.groupby("entry")["accuracy"].max()
        draw(
            league_chart(points, series_of(calibrators, set(points["entry"]))),
            extremes("Highest accuracy", highest.index, highest),
        )
        st.caption("Accuracy of best-of-n with a fixed n, and of best-of-n + IAS, with 95% bands.")


def _history(runs: pd.DataFrame) -> None:
    st.header("History")
    latest_first = runs.iloc[::-1]
    show_table(
        {
            "Run": latest_first["run_id"],
            "Grid": latest_first["grid_name"],
            "Started (UTC)": [_moment(each) for each in latest_first["started_at"]],
            "Duration": [_duration(row) for row in latest_first.to_dict("records")],
            "Status": latest_first["status"],
            "prmcal": latest_first["prmcal_version"],
            "Machine": [_machine(each) for each in latest_first["hardware"]],
        }
    )
    latest = latest_first.iloc[0]
    with st.expander("Packages and hardware of the latest run"):
        st.json({"packages": latest["packages"], "hardware": latest["hardware"]})
    with st.expander(f"Grid of the latest run, key {escaped(latest['grid_key'])}"):
        st.code(latest["grid"], language=None)


def _jobs(path: Path) -> None:
    st.header("Jobs")
    kinds = [_ALL, *ask(catalog.planned_shards, path)["kind"]]
    kind = st.selectbox("Kind", kinds, **bound("kind", kinds))
    jobs = ask(catalog.jobs, path)
    jobs = jobs if kind == _ALL else jobs[jobs["kind"] == kind]
    show_jobs(jobs)
    st.caption(
        f"{integer(len(jobs))} jobs. Jobs with the same key do the same work. The seed is derived from the key."
    )


def _plugins_and_datasets(path: Path) -> None:
    st.header("Plugins and data sets")
    for plugin in ask(catalog.plugins, path).to_dict("records"):
        with st.expander(f"{plugin['kind']} {escaped(plugin['name'])}: {escaped(plugin['plugin'])}"):
            st.json({"arguments": plugin["arguments"], "identity": plugin["identity"]})
    datasets = ask(catalog.datasets, path)
    show_table(
        {
            "Data set": datasets["name"],
            "Split": datasets["split"],
            "Questions": datasets["questions"],
            "Content hash": datasets["content_hash"],
            "Grader version": datasets["grader_version"],
        }
    )


def _moment(moment: Any) -> str:
    return MISSING if pd.isna(moment) else f"{moment:%Y-%m-%d %H:%M}"


def _duration(run: dict[str, Any]) -> str:
    if pd.isna(run["finished_at"]):
        return MISSING
    return duration((run["finished_at"] - run["started_at"]).total_seconds())


def _machine(hardware: dict[str, Any]) -> str:
    parts = [f"{hardware['cores']} cores"] if "cores" in hardware else []
    parts += [f"{hardware['memory_gib']} GiB"] if "memory_gib" in hardware else []
    parts += [str(gpu) for gpu in hardware.get("gpus", ())]
    return escaped(", ".join([*parts, str(hardware.get("machine", ""))]).strip(", ")) or MISSING
