"""The run, the filters and the chosen cell that follow the reader from page to page, and the links between pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.navigation.page import StreamlitPage

from prmcal.dashboard.controls.address import PAGE, address_of, bound, bound_several, given, link
from prmcal.dashboard.data import ask
from prmcal.db import catalog
from prmcal.db.metrics import TIERS
from prmcal.db.text.presentation import COORDINATE_TITLES
from prmcal.db.text.provenance import VERIFIED, tier_choice
from prmcal.errors import DatabaseError

FILTERS = {
    "dataset": "datasets",
    "llm": "llms",
    "prm": "prms",
    "calibrator": "calibrators",
    "strategy": "strategies",
}
"""The parameters of an address that filter rows, by the kind whose names they keep."""

TIER = "tier"
"""The parameter of an address that keeps the rows verified at a tier or at a higher one."""

KINDS = tuple(FILTERS)
"""The kinds of plugins that identify a cell, in the order of filters."""


@dataclass(frozen=True)
class GridNames:
    """The names in a grid by their kind, each kind in the order of the grid."""

    dataset: list[str]
    llm: list[str]
    prm: list[str]
    calibrator: list[str]
    strategy: list[str]


def grid_names(path: Path) -> GridNames:
    """Read the names from a published database."""
    plugins: pd.DataFrame = ask(catalog.plugins, path)
    return GridNames(**{kind: list(plugins.loc[plugins["kind"] == kind, "name"]) for kind in KINDS})


def filter_by(names: GridNames, *kinds: str) -> dict[str, list[str] | None]:
    """Show one filter for each kind in the sidebar. Return the selected names; None if nothing is selected."""
    return {
        kind: st.sidebar.multiselect(
            COORDINATE_TITLES[kind],
            getattr(names, kind),
            placeholder="All",
            **bound_several(FILTERS[kind], getattr(names, kind)),
        )
        or None
        for kind in kinds
    }


def choose_tier(path: Path) -> str | None:
    """Show the filter by tier of verification in the sidebar if the leaderboard is a merged one.

    Returns
    -------
    str or None
        The lowest tier whose cells are kept; None for all cells.
    """
    if not ask(catalog.is_merged, path):
        return None
    tiers = (None, *TIERS)
    chosen: str | None = st.sidebar.selectbox(
        VERIFIED, tiers, format_func=tier_choice, **bound(TIER, tiers, text=lambda tier: tier or "")
    )
    return chosen


RUN = "run"
"""The parameter with the short name of a run."""

CHOICES = ("dataset", "llm", "prm", "calibrator")
"""The kinds of plugins of which a reader chooses one, in the order of selects. They are also the parameters."""

CELLS = ("cell", "b", "a")
"""Parameters with the identifier of a cell. The first of them that the address has stands for the choice."""


@dataclass(frozen=True)
class Context:
    """The part of the address that all pages share.

    Attributes
    ----------
    run : str or None
        The short name of the run; None for the first run of the server.
    filters : dict
        The names that tables keep, by kind. A kind without a filter is left out.
    choice : dict
        The chosen name of each kind of :data:`CHOICES`. A kind of which nothing was chosen is left out.
    tier : str or None
        The lowest tier of verification whose cells tables keep; None for all cells.
    """

    run: str | None = None
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    choice: Mapping[str, str] = field(default_factory=dict)
    tier: str | None = None

    def parameters(self) -> dict[str, str | Sequence[str]]:
        """Return the query parameters of this context."""
        return {
            **({RUN: self.run} if self.run else {}),
            **({TIER: self.tier} if self.tier else {}),
            **{FILTERS[kind]: list(names) for kind, names in self.filters.items()},
            **self.choice,
        }

    def wanted(self) -> dict[str, Sequence[str]]:
        """Return the names that pages show first, by kind: the chosen one, or those that a filter keeps."""
        return {**self.filters, **{kind: [name] for kind, name in self.choice.items()}}

    def link(self, page: str, /, **state: str | Sequence[str] | None) -> str:
        """Return the address of a page that shows this context, changed by some parameters."""
        return link(page, **{**self.parameters(), **state})


def context_of(path: Path) -> Context:
    """Read the context from the address, without names that the run does not have.

    Parameters
    ----------
    path : Path
        The published copy of the run.
    """
    run = given(RUN)[-1] if given(RUN) else None
    try:
        names = asdict(grid_names(path))
        cells: pd.DataFrame = ask(catalog.cells, path)
    except DatabaseError:
        return Context(run)
    filters = {
        kind: [name for name in given(parameter) if name in names[kind]]
        for kind, parameter in FILTERS.items()
    }
    choice = {**_choice_of_cell(cells), **{kind: given(kind)[-1] for kind in CHOICES if given(kind)}}
    return Context(
        run,
        {kind: kept for kind, kept in filters.items() if kept},
        {kind: choice[kind] for kind in CHOICES if choice.get(kind) in names[kind]},
        next((tier for tier in given(TIER) if tier in TIERS and ask(catalog.is_merged, path)), None),
    )


def page_parameters() -> dict[str, list[str]]:
    """Return the parameters of the address that belong to the page and not to the context."""
    shared = {RUN, TIER, *FILTERS.values(), *CHOICES}
    return {name: values for name, values in address_of().items() if name not in shared}


def _choice_of_cell(cells: pd.DataFrame) -> dict[str, str]:
    """Return the names of the cell whose identifier the address has. Return no names for an unknown identifier."""
    wanted = next((given(parameter)[-1] for parameter in CELLS if given(parameter)), None)
    rows = cells[cells["cell_id"] == wanted].to_dict("records") if wanted else []
    return {kind: row[kind] for row in rows for kind in CHOICES if isinstance(row[kind], str)}


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
