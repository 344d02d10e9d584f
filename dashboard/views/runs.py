"""Page Runs: progress, history, how to reproduce a cell, jobs with keys and seeds, plugins and data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.paging import choose_page
from prmcal.dashboard.data import REFRESH_SECONDS, ask
from prmcal.dashboard.text.formats import MISSING, escaped, integer, integers, names
from prmcal.dashboard.text.reproduction import commands, grid_of_cell
from prmcal.dashboard.views.parts.tables import show_jobs, show_table
from prmcal.db.queries.runs import progress
from prmcal.db.run_folder import is_running, plugin_files
from prmcal.db.text.formats import duration

__all__ = ["show"]

_PAGE = 25
_ALL = "all kinds"


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Runs")
    runs = ask(path, "runs")
    if runs.empty:
        st.info("This database has no runs.")
        return
    _progress(path)
    _history(runs)
    _reproduction(path, runs.iloc[-1]["grid"])
    _jobs(path)
    _plugins_and_datasets(path)


@st.fragment(run_every=REFRESH_SECONDS)
def _progress(path: Path) -> None:
    """Show the progress of the run. Every few seconds, count the artifacts in its folder again."""
    st.subheader("Progress")
    table = progress(ask(path, "planned_shards"), path.parent)
    shards, done = int(table["shards"].sum()), int(table["done"].sum())
    state = "running" if is_running(path.parent) else "done" if done == shards else "not running"
    left = table["seconds_left"]
    time_left = (
        f", about {duration(left.sum())} of worker time left" if done < shards and left.notna().all() else ""
    )
    st.progress(
        done / shards if shards else 1.0,
        text=f"{state}: {integer(done)} of {integer(shards)} shards{time_left}",
    )
    with st.expander("By kind of job", expanded=state == "running"):
        show_table(
            {
                "Kind": [escaped(kind.replace("_", " ")) for kind in table["kind"]],
                "Jobs": integers(table["jobs"]),
                "Failed": integers(table["failed"]),
                "Shards done": [
                    f"{part} of {whole}" for part, whole in zip(table["done"], table["shards"], strict=True)
                ],
                "Worker time left": [_time_left(seconds) for seconds in left],
            }
        )


def _history(runs: pd.DataFrame) -> None:
    st.subheader("History")
    latest_first = runs.iloc[::-1]
    show_table(
        {
            "Run": names(latest_first["run_id"]),
            "Grid": names(latest_first["grid_name"]),
            "Started (UTC)": [_moment(each) for each in latest_first["started_at"]],
            "Duration": [_duration(row) for row in latest_first.to_dict("records")],
            "Status": names(latest_first["status"]),
            "prmcal": names(latest_first["prmcal_version"]),
            "Machine": [_machine(each) for each in latest_first["hardware"]],
        }
    )
    latest = latest_first.iloc[0]
    with st.expander("Packages and hardware of the latest run"):
        st.json({"packages": latest["packages"], "hardware": latest["hardware"]})
    with st.expander(f"Grid of the latest run, key {escaped(latest['grid_key'])}"):
        st.code(latest["grid"], language="yaml")


def _reproduction(path: Path, grid: str) -> None:
    st.subheader("Reproduce a cell")
    cell_id = st.selectbox("Cell", list(ask(path, "cells")["cell_id"]), **bound("cell"))
    if cell_id is None:
        st.info("This run has no cells.")
        return
    detail = ask(path, "cell", cell_id=cell_id, samples=0)
    try:
        text = grid_of_cell(grid, detail.cell)
    except (KeyError, ValueError, TypeError):
        st.info("The database does not have the whole grid of this cell.")
        return
    st.markdown(
        "Save this grid as `cell.yaml`, then run the commands. The grid has the settings and the seed of the cell."
    )
    st.code(text, language="yaml")
    st.code(commands(cell_id, plugin_files(path.parent)), language="shell", wrap_lines=True)
    st.caption("The jobs have the same keys and seeds on every machine.")
    with st.expander(f"{len(detail.jobs)} jobs of this cell"):
        show_jobs(detail.jobs)


def _jobs(path: Path) -> None:
    st.subheader("Jobs")
    kinds = [_ALL, *ask(path, "planned_shards")["kind"]]
    kind = st.selectbox("Kind", kinds, **bound("kind"))
    query = {"kind": None if kind == _ALL else kind}
    total, _ = ask(path, "job_page", **query, limit=0)
    page = choose_page(total, _PAGE)
    _, jobs = ask(path, "job_page", **query, limit=_PAGE, offset=_PAGE * page)
    show_jobs(jobs)
    st.caption(
        f"{integer(total)} jobs. Jobs with the same key do the same work. The seed is derived from the key."
    )


def _plugins_and_datasets(path: Path) -> None:
    st.subheader("Plugins and data sets")
    for plugin in ask(path, "plugins").to_dict("records"):
        with st.expander(f"{plugin['kind']} {escaped(plugin['name'])}: {escaped(plugin['plugin'])}"):
            st.json({"arguments": plugin["arguments"], "identity": plugin["identity"]})
    datasets = ask(path, "datasets")
    show_table(
        {
            "Data set": names(datasets["name"]),
            "Split": names(datasets["split"]),
            "Questions": integers(datasets["questions"]),
            "Content hash": names(datasets["content_hash"]),
            "Grader version": names(datasets["grader_version"]),
        }
    )


def _time_left(seconds: float) -> str:
    if pd.isna(seconds):
        return "not known yet"
    return duration(seconds) if seconds else "none"


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
