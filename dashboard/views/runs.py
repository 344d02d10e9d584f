"""Page Runs: progress, failures, history, versions and jobs."""

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.widgets import ask
from prmcal.dashboard.formats import MISSING, escaped, integer
from prmcal.dashboard.views.shared import show_jobs, show_progress, show_question, show_table
from prmcal.db import catalog
from prmcal.db.text.formats import duration


def show(path: Path) -> None:
    """Show the page for a published database."""
    answer = show_question("What was run, and what is left?")
    runs = ask(catalog.runs, path)
    if runs.empty:
        st.info("This database has no runs.")
        return
    cells = ask(catalog.cells, path)
    counts = cells["status"].value_counts()
    summary = ", ".join(f"{integer(counts[name])} {name}" for name in ("done", "failed", "pending") if name in counts)
    answer.markdown(f"**{summary}** of {integer(len(cells))} cells of the grid {escaped(runs.iloc[-1]['grid_name'])}.")
    show_progress(path)
    failed = cells[cells["status"] == "failed"].fillna({"reason": "no reason was recorded"})
    if len(failed):
        st.header("Failed")
        reasons = failed.groupby("reason", sort=False)["cell_id"].agg(["size", "first"]).reset_index()
        show_table({"Cells": reasons["size"], "Such as": reasons["first"], "Reason": reasons["reason"]})
    _history(runs)
    jobs = ask(catalog.jobs, path)
    with st.expander(f"{integer(len(jobs))} jobs"):
        show_jobs(jobs)
        st.caption("Jobs with the same key do the same work.")


def _history(runs: pd.DataFrame) -> None:
    st.header("History")
    latest_first = runs.iloc[::-1]
    show_table(
        {
            "Run": latest_first["run_id"],
            "Grid": latest_first["grid_name"],
            "Started (UTC)": [
                MISSING if pd.isna(start) else f"{start:%Y-%m-%d %H:%M}" for start in latest_first["started_at"]
            ],
            "Duration": [_duration(row) for row in latest_first.to_dict("records")],
            "Status": latest_first["status"],
            "prmcal": latest_first["prmcal_version"],
        }
    )
    latest = latest_first.iloc[0]
    with st.expander("Packages and hardware of the latest run"):
        facts = {**latest["hardware"], **latest["packages"]}
        table = pd.DataFrame({"Name": list(facts), "Version or value": list(map(str, facts.values()))})
        st.dataframe(table, hide_index=True)
    with st.expander(f"Grid of the latest run, key {escaped(latest['grid_key'])}"):
        st.code(latest["grid"], language=None)


def _duration(run: dict[str, Any]) -> str:
    if pd.isna(run["finished_at"]):
        return MISSING
    return duration((run["finished_at"] - run["started_at"]).total_seconds())
