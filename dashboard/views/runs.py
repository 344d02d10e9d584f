"""The page of the runs: how far one is, on what it ran, its keys and seeds, and how to measure a cell again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.paging import page_of
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import amount, number, plain
from prmcal.dashboard.text.recipe import commands, grid_of_cell
from prmcal.db.queries.runs import progress
from prmcal.db.run_folder import is_running, plugin_files
from prmcal.db.text.formats import duration

__all__ = ["show"]

_PAGE = 25
_SECONDS_BETWEEN_LOOKS = 2
_ALL = "all kinds"


def show(path: Path) -> None:
    """Show what ran in the folder of a published database."""
    st.title("Runs")
    runs = ask(path, "runs")
    if runs.empty:
        st.info("This database has no runs.")
        return
    _progress(path)
    _runs(runs)
    _recipe(path, runs.iloc[-1]["grid"])
    _jobs(path)
    _versions(path)


@st.fragment(run_every=_SECONDS_BETWEEN_LOOKS)
def _progress(path: Path) -> None:
    """How far the run is: looked at again every few seconds, in the folder's list of files alone."""
    st.subheader("Progress")
    table = progress(ask(path, "planned_shards"), path.parent)
    shards, done = int(table["shards"].sum()), int(table["done"].sum())
    state = "running" if is_running(path.parent) else "done" if done == shards else "not running"
    left = table["seconds_left"]
    after = (
        f", about {duration(left.sum())} of worker time left" if done < shards and left.notna().all() else ""
    )
    st.progress(
        done / shards if shards else 1.0, text=f"{state}: {amount(done)} of {amount(shards)} shards{after}"
    )
    shown = {
        "Jobs": [plain(kind.replace("_", " ")) for kind in table["kind"]],
        "Count": [amount(count) for count in table["jobs"]],
        "Failed": [amount(count) for count in table["failed"]],
        "Shards done": [
            f"{each} of {all_}" for each, all_ in zip(table["done"], table["shards"], strict=True)
        ],
        "Worker time left": ["not known yet" if pd.isna(each) else _time_left(each) for each in left],
    }
    with st.expander("By kind of job", expanded=state == "running"):
        st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)


def _runs(runs: pd.DataFrame) -> None:
    st.subheader("What ran when")
    latest_first = runs.iloc[::-1]
    shown = {
        "Run": [plain(each) for each in latest_first["run_id"]],
        "Grid": [plain(each) for each in latest_first["grid_name"]],
        "Started (UTC)": [_moment(each) for each in latest_first["started_at"]],
        "Took": [_took(row) for row in latest_first.to_dict("records")],
        "Status": [plain(each) for each in latest_first["status"]],
        "prmcal": [plain(each) for each in latest_first["prmcal_version"]],
        "Machine": [_machine(each) for each in latest_first["hardware"]],
    }
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)
    latest = latest_first.iloc[0]
    with st.expander("Packages and hardware of the latest"):
        st.json({"packages": latest["packages"], "hardware": latest["hardware"]})
    with st.expander(f"Grid of the latest, key {plain(latest['grid_key'])}"):
        st.code(latest["grid"], language="yaml")


def _recipe(path: Path, grid: str) -> None:
    st.subheader("Measure a cell again")
    cell_id = st.selectbox("Cell", list(ask(path, "cells")["cell_id"]), **bound("cell"))
    if cell_id is None:
        st.info("This run has no cells.")
        return
    detail = ask(path, "cell", cell_id=cell_id, samples=0)
    try:
        text = grid_of_cell(grid, detail.cell)
    except (KeyError, ValueError, TypeError):
        st.info("The database does not have the whole grid that this cell comes from.")
        return
    st.markdown("Save this as `cell.yaml`: the settings and the seed that the cell was measured with.")
    st.code(text, language="yaml")
    st.code(commands(cell_id, plugin_files(path.parent)), language="shell", wrap_lines=True)
    st.caption("Its jobs have the keys and seeds below, on every machine.")
    with st.expander(f"{len(detail.jobs)} jobs behind this cell"):
        _job_table(detail.jobs)


def _jobs(path: Path) -> None:
    st.subheader("Jobs")
    kinds = [_ALL, *ask(path, "planned_shards")["kind"]]
    kind = st.selectbox("Kind", kinds, **bound("kind"))
    about = {"kind": None if kind == _ALL else kind}
    total, _ = ask(path, "job_page", **about, limit=0)
    page = page_of(total, _PAGE)
    _, jobs = ask(path, "job_page", **about, limit=_PAGE, offset=_PAGE * page)
    _job_table(jobs)
    st.caption(f"{amount(total)} jobs. Equal keys are equal work; the seed follows from the key.")


def _job_table(jobs: pd.DataFrame) -> None:
    # As text: seeds have more digits than a browser counts with.
    seeds = [None if pd.isna(seed) else str(seed) for seed in jobs["seed"]]
    shown = jobs[["kind", "llm", "prm", "calibrator", "dataset", "split", "job_key"]].assign(
        seed=seeds,
        status=jobs["status"],
        shards=jobs["shards"],
        seconds=jobs["seconds"],
        tokens=jobs["generated_tokens"] + jobs["scored_tokens"],
    )
    st.dataframe(
        shown,
        hide_index=True,
        column_config={"seconds": st.column_config.NumberColumn(format="%.1f")},
    )


def _versions(path: Path) -> None:
    st.subheader("What the names stand for")
    for plugin in ask(path, "plugins").to_dict("records"):
        with st.expander(f"{plugin['kind']} {plain(plugin['name'])}: {plain(plugin['plugin'])}"):
            st.json({"arguments": plugin["arguments"], "identity": plugin["identity"]})
    datasets = ask(path, "datasets")
    shown = {
        "Data set": [plain(each) for each in datasets["name"]],
        "Split": [plain(each) for each in datasets["split"]],
        "Questions": [amount(each) for each in datasets["questions"]],
        "Content": [plain(each) for each in datasets["content_hash"]],
        "Grader": [plain(each) for each in datasets["grader_version"]],
    }
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)


def _time_left(seconds: float) -> str:
    return duration(seconds) if seconds else "none"


def _moment(moment: Any) -> str:
    return number(None) if pd.isna(moment) else f"{moment:%Y-%m-%d %H:%M}"


def _took(run: dict[str, Any]) -> str:
    if pd.isna(run["finished_at"]):
        return number(None)
    return duration((run["finished_at"] - run["started_at"]).total_seconds())


def _machine(hardware: dict[str, Any]) -> str:
    parts = [f"{hardware['cores']} cores"] if "cores" in hardware else []
    parts += [f"{hardware['memory_gib']} GiB"] if "memory_gib" in hardware else []
    parts += [str(gpu) for gpu in hardware.get("gpus", ())]
    return plain(", ".join([*parts, str(hardware.get("machine", ""))]).strip(", ")) or number(None)
