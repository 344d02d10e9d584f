"""Moving between pages and runs. The links in the sidebar keep the context, and what each page showed last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from prmcal.dashboard.controls.address import PAGE, bound
from prmcal.dashboard.controls.context import CELLS, RUN, Context, page_parameters

__all__ = ["choose_run", "run_names", "show_links"]

_SHOWN = "prmcal shown"
# Parameters that name something in the data. Another visit of the page may come with another choice.
_OF_DATA = {*CELLS, "question", "trajectory", PAGE}


def run_names(folders: Sequence[Path]) -> dict[str, Path]:
    """Return the folders of several runs by short names: as few of the last parts of each path as tell them apart."""
    folders = list(dict.fromkeys(folder.resolve() for folder in folders))
    return {_short(folder, folders): folder for folder in folders}


def choose_run(names: Sequence[str]) -> None:
    """Show a switch between runs in the sidebar if there are several.

    What names something in the data of one run is dropped on the way to another run.
    """
    if len(names) > 1:
        st.sidebar.selectbox("Run", names, **bound(RUN, names, resets=sorted(_OF_DATA)))


def show_links(pages: Mapping[str, StreamlitPage], current: StreamlitPage, context: Context) -> None:
    """Show a link to each page in the sidebar.

    The address of each link has the context and what its page showed last, apart from what names something in the data.
    """
    shown: dict[str, dict[str, Any]] = st.session_state.setdefault(_SHOWN, {})
    here = page_parameters()
    shown[current.title] = {name: values for name, values in here.items() if name not in _OF_DATA}
    for page in pages.values():
        own = here if page.title == current.title else shown.get(page.title, {})
        st.sidebar.page_link(
            current if page.title == current.title else page,
            query_params={**context.parameters(), **own},
        )


def _short(folder: Path, folders: Sequence[Path]) -> str:
    others = [other for other in folders if other != folder]
    for count in range(1, len(folder.parts)):
        if all(other.parts[-count:] != folder.parts[-count:] for other in others):
            return "/".join(folder.parts[-count:])
    return str(folder)
