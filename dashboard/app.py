"""The Streamlit script: ``streamlit run dashboard/app.py -- --dir DIR``."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import streamlit as st

from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import plain
from prmcal.dashboard.views import calibration, compare, leaderboard, runs, scaling, trajectories
from prmcal.db.files import published_path
from prmcal.db.reader import fingerprint
from prmcal.errors import DatabaseError, MissingDatabaseError

_SECONDS_BETWEEN_LOOKS = 2
_SIDEBAR = 250  # pixels: the rest is for tables

_RUNS = "runs"
# Without icons: the first would be fetched from another machine, as the window's icon.
_PAGES = {
    "leaderboard": (leaderboard, "Leaderboard"),
    "calibration": (calibration, "Calibration"),
    "scaling": (scaling, "Scaling"),
    "compare": (compare, "Compare"),
    "trajectories": (trajectories, "Trajectories"),
    _RUNS: (runs, "Runs"),
}


def main() -> None:
    """Show the page that the address names, and again whenever a run has published."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    path = published_path(parser.parse_args().dir)

    st.set_page_config(page_title="prmcal", layout="wide", initial_sidebar_state=_SIDEBAR)
    page = st.navigation(
        [
            st.Page(partial(view.show, path), title=title, url_path=url, default=not place)
            for place, (url, (view, title)) in enumerate(_PAGES.items())
        ]
    )
    # First of all, so that a page that breaks is tried again when the run publishes.
    _look_again(path, fingerprint(path))
    try:
        if page.url_path != _RUNS and ask(path, "cells").empty:
            st.title("Nothing to show yet")
            st.info(
                f"The run in {plain(str(path.parent))} has begun and measured nothing yet. The page fills by itself as "
                "results come in; the page Runs tells how far it is."
            )
        else:
            page.run()
    except MissingDatabaseError:
        st.title("Nothing to show yet")
        st.info(
            f"There are no results in {plain(str(path.parent))}. Start a run with `prmcal run GRID --out DIR` for this "
            "folder: the page fills by itself as results come in."
        )
    except DatabaseError as error:
        st.title("The results cannot be read")
        st.error(plain(str(error)))


@st.fragment(run_every=_SECONDS_BETWEEN_LOOKS)
def _look_again(path: Path, seen: tuple[int, int, int] | None) -> None:
    if fingerprint(path) != seen:
        st.rerun()


main()
