"""The app: navigation between the pages, and messages while there are no results.

Its command line is ``--dir DIR``, where DIR is the output folder of a run.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import streamlit as st

from prmcal.dashboard.data import REFRESH_SECONDS, ask
from prmcal.dashboard.text.formats import escaped
from prmcal.dashboard.views import calibration, compare, leaderboard, runs, scaling, trajectories
from prmcal.db.reader import fingerprint
from prmcal.db.run_folder import published_path
from prmcal.errors import DatabaseError, MissingDatabaseError

__all__ = ["main"]

_SIDEBAR_WIDTH = 250  # pixels; most of the page is for tables

_RUNS = "runs"
# Pages have no icons. The browser tab would show the first one, and Streamlit would load it from the internet.
_PAGES = {
    "leaderboard": (leaderboard, "Leaderboard"),
    "calibration": (calibration, "Calibration"),
    "scaling": (scaling, "Scaling"),
    "compare": (compare, "Compare"),
    "trajectories": (trajectories, "Trajectories"),
    _RUNS: (runs, "Runs"),
}


def main() -> None:
    """Show the page that the address names. Show it again whenever the run publishes results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    path = published_path(parser.parse_args().dir)

    st.set_page_config(page_title="prmcal", layout="wide", initial_sidebar_state=_SIDEBAR_WIDTH)
    page = st.navigation(
        [
            st.Page(partial(view.show, path), title=title, url_path=url, default=not place)
            for place, (url, (view, title)) in enumerate(_PAGES.items())
        ]
    )
    # This comes before the page, so that a page that fails is drawn again when the run publishes.
    _rerun_when_published(path, fingerprint(path))
    folder = escaped(str(path.parent))
    try:
        if page.url_path != _RUNS and ask(path, "cells").empty:
            _show_no_results(
                f"The run in {folder} has started but has not measured anything yet. Page Runs shows its progress."
            )
        else:
            page.run()
    except MissingDatabaseError:
        _show_no_results(
            f"There are no results in {folder}. Start a run with `prmcal run GRID --out DIR`, where DIR is this folder."
        )
    except DatabaseError as error:
        st.title("The results cannot be read")
        st.error(escaped(str(error)))


def _show_no_results(reason: str) -> None:
    st.title("No results yet")
    st.info(f"{reason} This page updates by itself as results come in.")


@st.fragment(run_every=REFRESH_SECONDS)
def _rerun_when_published(path: Path, seen: tuple[int, int, int] | None) -> None:
    if fingerprint(path) != seen:
        st.rerun()
