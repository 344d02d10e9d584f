"""The common parts of pages: tables of text, HTML, jobs, the status of a cell, and the progress of a run."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from prmcal.dashboard.controls.context import context_of
from prmcal.dashboard.controls.widgets import REFRESH_SECONDS, ask, bound_several
from prmcal.dashboard.formats import escaped, integer, texts
from prmcal.db import catalog
from prmcal.db.html.boards import style
from prmcal.db.metrics import MetricColumn
from prmcal.db.queries.runs import progress
from prmcal.db.reader import fingerprint
from prmcal.db.run_folder import LOG_FILE, finished_artifacts, is_running, workers_folder
from prmcal.db.statistics.paired import merit
from prmcal.db.text.formats import COORDINATE_TITLES, WORDS, duration, time_left
from prmcal.errors import DatabaseError

_JOB_COLUMNS = (
    *("kind", "llm", "prm", "calibrator", "dataset", "split", "job_key", "status", "shards"),
    *("seconds", "tokens"),
)
_DRAWN = 2
"""The number of calibrators that are drawn beside the baseline unless the reader chooses others."""
# The background of the page's theme under the name that the style uses.
_COLOURS = ".ov { --ov-page: var(--st-background-color); }"


def show_question(question: str) -> DeltaGenerator:
    """Show the question of a page as its title. Return the container of the answer, right below it."""
    st.title(question, anchor=False)
    return st.container(key="answer")


def show_table(columns: Mapping[str, Sequence[str] | pd.Series]) -> None:
    """Show columns by their titles: lists of Markdown, and columns of data as they are."""
    cells = {title: texts(values) if isinstance(values, pd.Series) else values for title, values in columns.items()}
    st.table(pd.DataFrame(cells), border="horizontal", hide_index=True)


def show_html(html: str, key: str = "shown") -> None:
    """Show HTML of :mod:`prmcal.db.html.boards`. Its links open other pages without a new start.

    Each part of a page has its own key.
    """
    _component()(data=html, key=key)


@functools.cache
def _component() -> Any:
    script = Path(__file__).with_name("show.js").read_text(encoding="utf-8")
    css = style() + _COLOURS
    return st.components.v2.component("prmcal_html", html='<div class="shown"></div>', css=css, js=script)


def choose_drawn(path: Path, ranked: Sequence[str], more: Sequence[str] = ()) -> list[str]:
    """Let the reader choose the drawn calibrators: by default the best ranked ones and the baseline."""
    always = [*ask(catalog.with_role, path, role="baseline"), *context_of(path).choice.values()]
    default = [name for name in ranked if name in {*ranked[:_DRAWN], *always}]
    with st.container(key="folded curves"):
        names = [*ranked, *more]
        return st.multiselect("Drawn", names, **bound_several("drawn", names, default)) or default


def best_first(cells: pd.DataFrame, metric: MetricColumn | None) -> pd.DataFrame:
    """Return cells in the order of the grid's settings, and each setting with the best by a metric first."""
    # A vote has no PRM, and competes with all.
    kinds = ["dataset", "llm", *(["prm"] if cells["strategy"].isna().all() else [])]
    setting = cells.groupby(kinds, sort=False, dropna=False).ngroup()
    worse = 0.0 if metric is None else -merit(cells[metric.name], metric.better or "higher")
    order = pd.DataFrame({"setting": setting, "worse": worse}, cells.index)
    return cells.loc[order.sort_values(["setting", "worse"], kind="stable").index]


def show_jobs(jobs: pd.DataFrame) -> None:
    """Show jobs with their keys and costs."""
    table = jobs.assign(tokens=jobs["generated_tokens"] + jobs["scored_tokens"])
    titles = {name: COORDINATE_TITLES.get(name, name.replace("_", " ").capitalize()) for name in _JOB_COLUMNS}
    seconds = st.column_config.NumberColumn(format="%.1f")
    st.dataframe(table[list(titles)].rename(columns=titles), hide_index=True, column_config={"Seconds": seconds})


def show_status(path: Path, cell: Mapping[str, Any]) -> None:
    """Show why a cell has failed, or the work before it is measured. Show nothing for a cell that is done."""
    if cell["status"] == "failed":
        st.error(f"This cell failed: {escaped(cell['reason'] or 'no reason was recorded')}")
    elif cell["status"] == "pending":
        show_coming(path, cell["cell_id"], "This has not been measured yet. It comes")


def follow_run(path: Path) -> bool:
    """Show on top of every page that results are provisional while a run writes to the folder, and its progress.

    The page is drawn again when the run publishes results, and when it ends. After that, no query runs again. A folder
    without results waits for its first run. Return whether the page is drawn again by itself.
    """
    running, published = is_running(path.parent), fingerprint(path)
    follows = running or published is None
    if follows:
        st.fragment(_follow, run_every=REFRESH_SECONDS)(path, running, published)
    return follows


def show_progress(path: Path) -> None:
    """Show how much of the plan is done, in total and by kind of job."""
    st.header("Progress")
    running = is_running(path.parent)
    if not running:
        table = progress(ask(catalog.planned_shards, path), path.parent)
        is_complete = int(table["done"].sum()) == int(table["shards"].sum())
        _bar(path, table, "Done" if is_complete else "Not running")
    st.fragment(_kinds, run_every=REFRESH_SECONDS if running else None)(path, running)


def _follow(path: Path, running: bool, published: tuple[int, int, int] | None) -> None:
    if fingerprint(path) != published or is_running(path.parent) != running:
        st.rerun()
    if not running:
        return
    try:
        _bar(path, progress(ask(catalog.planned_shards, path), path.parent), "Provisional, the run is in progress")
    except DatabaseError:
        st.progress(0.0, text="Provisional, the run is in progress: nothing has been published yet")


def _bar(path: Path, table: pd.DataFrame, state: str) -> None:
    shards, done = int(table["shards"].sum()), int(table["done"].sum())
    text = f"{state}: {100 * done // max(shards, 1)}%, {integer(done)} of {integer(shards)} shards"
    if done < shards and (time_left := wall_time(path, table["seconds_left"])):
        text += f", {time_left} left"
    st.progress(done / shards if shards else 1.0, text=text)


def wall_time(path: Path, seconds: pd.Series) -> str:
    """Return how long the workers of a run need for kinds of jobs, in words; empty if no worker or no time is known."""
    workers = sum(1 for _ in workers_folder(path.parent).glob("*.txt"))
    if not workers or seconds.isna().all():
        return ""
    return f"{'at least' if seconds.isna().any() else 'about'} {duration(seconds.sum() / workers)}"


def show_coming(path: Path, cell_id: str, lead: str) -> None:
    """Show the remaining work and time of a run before a pending cell is measured."""
    jobs: pd.DataFrame = ask(catalog.cell, path, cell_id=cell_id).jobs
    keys: dict[str, set[str]] = {kind: set() for kind in sorted(set(jobs["kind"]), key=_order)}
    for kind, parameters in zip(jobs["kind"], jobs["parameters"], strict=True):
        keys[kind] |= {shard["key"] for shard in parameters.get("shards", ())}
    unfinished = pd.Series({kind: len(shards - finished_artifacts(path.parent, kind)) for kind, shards in keys.items()})
    costs = ask(catalog.planned_shards, path).set_index("kind")["seconds_per_shard"].reindex(unfinished.index)
    when = wall_time(path, (unfinished * costs.astype(float)).where(unfinished > 0, 0.0))
    if is_running(path.parent):
        st.info(f"{lead}{f' in {when},' if when else ''} after these jobs:")
    else:
        st.info("The run ended before this was measured. Run the same command again: it goes on from here.")
    done = [f"{len(shards) - unfinished[kind]} of {len(shards)}" for kind, shards in keys.items()]
    show_table({"Job": [job_words(kind) for kind in keys], "Shards done": done})


def job_words(kind: str) -> str:
    """Return two or three words on the work of a kind of job."""
    words: dict[str, str] = WORDS["kinds"]
    return words.get(kind, kind.replace("_", " "))


def _order(kind: str) -> int:
    """Return the position of a kind of job in the course of a run."""
    kinds = list(WORDS["kinds"])
    return kinds.index(kind) if kind in kinds else len(kinds)


def _kinds(path: Path, running: bool) -> None:
    table = progress(ask(catalog.planned_shards, path), path.parent)
    table = table.sort_values("kind", key=lambda kinds: kinds.map(_order))
    log = path.with_name(LOG_FILE)
    if running and log.is_file() and (lines := log.read_text("utf-8", "replace").splitlines()):
        st.text(f"Latest: {lines[-1]}")
    show_table(
        {
            "Job": [escaped(job_words(kind)) for kind in table["kind"]],
            "Shards done": [f"{row.done} of {row.shards}" for row in table.itertuples()],
            "Failed": table["failed"],
            "Worker time left": [time_left(row.shards - row.done, row.seconds_left) for row in table.itertuples()],
        }
    )
