"""The common parts of pages: tables of text, HTML, jobs, the status of a cell, and the progress of a run."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.context import context_of
from prmcal.dashboard.controls.widgets import REFRESH_SECONDS, ask, bound_several
from prmcal.dashboard.formats import escaped, integer, texts
from prmcal.db import catalog
from prmcal.db.html.boards import overview_style
from prmcal.db.metrics import Metric
from prmcal.db.queries.runs import progress
from prmcal.db.reader import fingerprint
from prmcal.db.run_folder import LOG_FILE, is_running
from prmcal.db.statistics.paired import merit
from prmcal.db.text.formats import COORDINATE_TITLES, duration, time_left
from prmcal.errors import DatabaseError

_JOB_COLUMNS = (
    *("kind", "llm", "prm", "calibrator", "dataset", "split", "job_key", "status", "shards"),
    *("seconds", "tokens"),
)


def show_table(columns: Mapping[str, Sequence[str] | pd.Series]) -> None:
    """Show columns by their titles: lists of Markdown, and columns of data as they are."""
    shown = {title: texts(each) if isinstance(each, pd.Series) else each for title, each in columns.items()}
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)


# The background of the page's theme under the name that the style uses.
_COLOURS = ".ov { --ov-page: var(--st-background-color); } .ov h2 { font-size: 1.4rem; font-weight: 600; }"


def show_html(html: str) -> None:
    """Show HTML of :mod:`prmcal.db.html.boards`. Its links open other pages without a new start."""
    _component()(data=html, key="shown")


@functools.cache
def _component() -> Any:
    script = Path(__file__).with_name("show.js").read_text(encoding="utf-8")
    style = overview_style() + _COLOURS
    return st.components.v2.component("prmcal_html", html='<div class="shown"></div>', css=style, js=script)


_DRAWN = 3
"""The number of calibrators that are drawn beside the baseline unless the reader chooses others."""


def choose_drawn(path: Path, ranked: Sequence[str]) -> list[str]:
    """Let the reader choose the calibrators that are drawn: by default the best of the ranked and the baseline."""
    chosen = [*ask(catalog.with_role, path, role="baseline"), *context_of(path).choice.values()]
    first = [name for name in ranked if name in {*ranked[:_DRAWN], *chosen}]
    with st.container(key="folded curves"):
        return st.multiselect("Drawn", ranked, **bound_several("drawn", ranked, first)) or first


def best_first(cells: pd.DataFrame, metric: Metric | None) -> pd.DataFrame:
    """Return cells in the order of the grid's places, and each place with the best by a metric first."""
    # A vote has no PRM, and competes with all.
    kinds = ["dataset", "llm", *(["prm"] if cells["strategy"].isna().all() else [])]
    place = cells.groupby(kinds, sort=False, dropna=False).ngroup()
    worse = 0.0 if metric is None else -merit(cells[metric.name], metric.better or "higher")
    order = pd.DataFrame({"place": place, "worse": worse}, cells.index)
    return cells.loc[order.sort_values(["place", "worse"], kind="stable").index]


def show_jobs(jobs: pd.DataFrame) -> None:
    """Show jobs with their keys and costs."""
    shown = jobs.assign(tokens=jobs["generated_tokens"] + jobs["scored_tokens"])
    titles = {name: COORDINATE_TITLES.get(name, name.replace("_", " ").capitalize()) for name in _JOB_COLUMNS}
    seconds = st.column_config.NumberColumn(format="%.1f")
    st.dataframe(
        shown[list(titles)].rename(columns=titles), hide_index=True, column_config={"Seconds": seconds}
    )


def show_status(cell: Mapping[str, Any]) -> None:
    """Show why a cell has failed, or that it is pending. Show nothing for a cell that is done."""
    if cell["status"] == "failed":
        st.error(f"This cell failed: {escaped(cell['reason'] or 'no reason was recorded')}")
    elif cell["status"] == "pending":
        st.info("This cell is pending. Its metrics have not been computed yet.")


def follow_run(path: Path) -> bool:
    """Show on top of every page that results are provisional while a run writes to the folder, and its progress.

    The page is drawn again when the run publishes results, and when it ends. Nothing asks again after that. A folder
    without results waits for its first run. Return whether the page is drawn again by itself.
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
    table = progress(ask(catalog.planned_shards, path), path.parent)
    whole = int(table["done"].sum()) == int(table["shards"].sum())
    _bar(table, "done" if whole else "not running")
    _kinds(path, False)


def _follow(path: Path, running: bool, seen: tuple[int, int, int] | None) -> None:
    if fingerprint(path) != seen or is_running(path.parent) != running:
        st.rerun()
    if not running:
        return
    try:
        _bar(progress(ask(catalog.planned_shards, path), path.parent), "Provisional, the run is in progress")
    except DatabaseError:
        st.progress(0.0, text="Provisional, the run is in progress: nothing has been published yet")


def _bar(table: pd.DataFrame, state: str) -> None:
    shards, done = int(table["shards"].sum()), int(table["done"].sum())
    left = table["seconds_left"]
    known = done < shards and left.notna().all()
    time_left = f", about {duration(left.sum())} of worker time left" if known else ""
    text = f"{state}: {integer(done)} of {integer(shards)} shards{time_left}"
    st.progress(done / shards if shards else 1.0, text=text)


def _kinds(path: Path, expanded: bool) -> None:
    table = progress(ask(catalog.planned_shards, path), path.parent)
    log = path.with_name(LOG_FILE)
    if expanded and log.is_file() and (lines := log.read_text("utf-8", "replace").splitlines()):
        st.text(f"Latest: {lines[-1]}")
    with st.expander("By kind of job", expanded=expanded):
        show_table(
            {
                "Kind": [escaped(kind.replace("_", " ")) for kind in table["kind"]],
                "Jobs": table["jobs"],
                "Failed": table["failed"],
                "Shards done": [f"{row.done} of {row.shards}" for row in table.itertuples()],
                "Worker time left": [
                    time_left(row.shards - row.done, row.seconds_left) for row in table.itertuples()
                ],
            }
        )
