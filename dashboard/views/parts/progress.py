"""The progress of a run, from its plan and the artifacts in its folder. While the run goes on, it is drawn again."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.data import REFRESH_SECONDS, ask
from prmcal.dashboard.formats import escaped, integer, integers
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.queries.runs import progress
from prmcal.db.reader import fingerprint
from prmcal.db.run_folder import is_running
from prmcal.db.text.formats import duration
from prmcal.errors import DatabaseError

__all__ = ["follow_run", "show_progress"]


def follow_run(path: Path) -> bool:
    """Show on top of every page that results are provisional while a run writes to the folder, and its progress.

    The page is drawn again when the run publishes results, and when it ends. Nothing asks again after that. A folder
    without results waits for its first run.

    Returns
    -------
    bool
        Whether the page is drawn again by itself.
    """
    running, seen = is_running(path.parent), fingerprint(path)
    follows = running or seen is None
    if follows:
        st.fragment(_follow, run_every=REFRESH_SECONDS)(path, running, seen)
    return follows


def show_progress(path: Path) -> None:
    """Show how much of the plan is done, in total and by kind of job."""
    st.header("Progress")
    running = is_running(path.parent)
    if running:
        st.fragment(_kinds, run_every=REFRESH_SECONDS)(path, True)
        return
    table = progress(ask(path, "planned_shards"), path.parent)
    whole = int(table["done"].sum()) == int(table["shards"].sum())
    _bar(table, "done" if whole else "not running")
    _kinds(path, False)


def _follow(path: Path, running: bool, seen: tuple[int, int, int] | None) -> None:
    if fingerprint(path) != seen or is_running(path.parent) != running:
        st.rerun()
    if not running:
        return
    try:
        _bar(progress(ask(path, "planned_shards"), path.parent), "Provisional, the run is in progress")
    except DatabaseError:
        st.progress(0.0, text="Provisional, the run is in progress: nothing has been published yet")


def _bar(table: pd.DataFrame, state: str) -> None:
    shards, done = int(table["shards"].sum()), int(table["done"].sum())
    left = table["seconds_left"]
    known = done < shards and left.notna().all()
    time_left = f", about {duration(left.sum())} of worker time left" if known else ""
    st.progress(
        done / shards if shards else 1.0,
        text=f"{state}: {integer(done)} of {integer(shards)} shards{time_left}",
    )


def _kinds(path: Path, expanded: bool) -> None:
    table = progress(ask(path, "planned_shards"), path.parent)
    with st.expander("By kind of job", expanded=expanded):
        show_table(
            {
                "Kind": [escaped(kind.replace("_", " ")) for kind in table["kind"]],
                "Jobs": integers(table["jobs"]),
                "Failed": integers(table["failed"]),
                "Shards done": [
                    f"{part} of {whole}" for part, whole in zip(table["done"], table["shards"], strict=True)
                ],
                "Worker time left": [_time_left(seconds) for seconds in table["seconds_left"]],
            }
        )


def _time_left(seconds: float) -> str:
    if pd.isna(seconds):
        return "not known yet"
    return duration(seconds) if seconds else "none"
