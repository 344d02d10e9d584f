"""The app: navigation between pages, and messages while there are no results.

A page is a module of `views` with a function ``show(path)``. All pages share the context
(:mod:`prmcal.dashboard.controls.context`). The choices of a page are parameters of its address.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from prmcal.dashboard.controls import context
from prmcal.dashboard.controls.widgets import ask, enter_page
from prmcal.dashboard.formats import escaped
from prmcal.dashboard.views import calibration, compare, leaderboard, league, overview, runs, scaling, trajectories
from prmcal.dashboard.views.shared import follow_run, show_coming
from prmcal.db import catalog
from prmcal.db.queries.health import health
from prmcal.db.run_folder import published_path
from prmcal.db.text.health import misleading, summaries
from prmcal.errors import DatabaseError, MissingDatabaseError

_SIDEBAR_WIDTH = 250  # pixels; most of the page is for tables
_RUNS = "runs"
_LEADERBOARDS = {"scaling": "scaling", "league": "league"}  # of pages that do not need that of calibration
# The first page is also shown at the root of the address. Pages have no icons. The browser tab would show the first
# one, and Streamlit would load it from the internet.
_PAGES: dict[str, tuple[Callable[..., None], str]] = {
    "overview": (overview.show, "Overview"),
    "leaderboard": (leaderboard.show, "Leaderboard"),
    "calibration": (calibration.show, "Calibration"),
    "scaling": (scaling.show, "Scaling"),
    "league": (league.show, "League"),
    "compare": (compare.show, "Compare"),
    "trajectories": (trajectories.show, "Trajectories"),
    _RUNS: (runs.show, "Runs"),
}


def main(folder: Path) -> None:
    """Show the page that the address names. Draw the page again whenever the run publishes results."""
    path = published_path(folder)
    pages = {url: st.Page(partial(show, path), title=title, url_path=url) for url, (show, title) in _PAGES.items()}
    start_page, title = next(iter(_PAGES.values()))
    root = st.Page(partial(start_page, path), title=title, url_path="", default=True)
    page = st.navigation([root, *pages.values()], position="hidden")
    # This comes before anything in the sidebar, which would otherwise get another width.
    name = f"{page.title} · {folder.name} · prmcal"
    st.set_page_config(page_title=name, layout="wide", initial_sidebar_state=_SIDEBAR_WIDTH)
    st.html(Path(__file__).with_name("pages.css"))
    enter_page(page.url_path)
    context.show_links(pages, page, context.context_of(path))
    # This comes before the page, so that a page that fails is drawn again when the run publishes.
    _show(page, path, follow_run(path))


def _show(page: StreamlitPage, path: Path, follows: bool) -> None:
    folder = escaped(str(path.parent))
    try:
        cells = ask(catalog.cells, path)
        page_cells = cells[cells["leaderboard"] == _LEADERBOARDS.get(page.url_path, "calibration")]
        if page.url_path != _RUNS and set(page_cells["status"]) == {"pending"}:
            st.title(page.title)
            show_coming(path, page_cells["cell_id"].iloc[0], "Nothing has been measured yet. First results")
        elif page.url_path != _RUNS and cells.empty:
            state = "has started but has not measured anything yet. Page Runs shows its progress."
            _show_no_results(f"The run in {folder} {state}", follows)
        else:
            if page.url_path not in (_RUNS, "", "overview"):  # the overview shows them itself
                for title, _, sentence in summaries(misleading(ask(health, path))):
                    st.warning(f"**{escaped(title)}**, {escaped(sentence)}")
            page.run()
    except MissingDatabaseError:
        advice = "Start a run with `prmcal run GRID --out DIR`, where DIR is this folder."
        _show_no_results(f"There are no results in {folder}. {advice}", follows)
    except DatabaseError as error:
        st.title("The results cannot be read")
        st.error(escaped(str(error)))


def _show_no_results(reason: str, follows: bool) -> None:
    st.title("No results yet")
    st.info(f"{reason} This page updates by itself as results come in." if follows else reason)
