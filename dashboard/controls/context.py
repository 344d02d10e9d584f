"""The filters and the chosen cell that follow the reader from page to page, and the links between pages."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.navigation.page import StreamlitPage

from prmcal.dashboard.controls.widgets import ask, bound, bound_several, link, query_values
from prmcal.dashboard.formats import escaped
from prmcal.db import catalog
from prmcal.db.metrics import RANKING_METRIC, SETTING, Leaderboard
from prmcal.db.text.formats import COORDINATE_TITLES, LEADERBOARDS
from prmcal.errors import DatabaseError

FILTERS = {"dataset": "datasets", "llm": "llms", "prm": "prms", "calibrator": "calibrators", "strategy": "strategies"}
"""The parameters of an address that filter rows, by the kind of plugin whose names they keep, in their order."""


def grid_names(path: Path) -> dict[str, list[str]]:
    """Return the names in the grid of a published database by their kind, each kind in the order of the grid."""
    plugins: pd.DataFrame = ask(catalog.plugins, path)
    return {kind: list(plugins.loc[plugins["kind"] == kind, "name"]) for kind in FILTERS}


def filter_by(path: Path, *kinds: str) -> dict[str, list[str] | None]:
    """Show one filter for each kind in the sidebar. Return the selected names; None if nothing is selected."""
    names = grid_names(path)
    selection: dict[str, list[str] | None] = {}
    for kind in kinds:
        title, binding = COORDINATE_TITLES[kind], bound_several(FILTERS[kind], names[kind])
        selection[kind] = st.sidebar.multiselect(title, names[kind], placeholder="All", **binding) or None
    return selection


CHOICES = ("dataset", "llm", "prm", "calibrator")
"""The kinds of plugins that a reader chooses by a select, in the order of the selects. They are also the parameters."""

# Parameters with the identifier of a cell. The first of them that the address has stands for the choice.
_CELLS = ("cell", "b", "a")
_SHOWN = "prmcal shown"
# Parameters that name something in the data. Another visit of the page may come with another choice.
_OF_DATA = {*_CELLS, "question", "trajectory"}


@dataclass(frozen=True)
class PageContext:
    """The part of the address that all pages share.

    `choice` has the chosen name of each kind of :data:`CHOICES`, without kinds that have no choice. `preferred` has the
    names that pages show unless the reader chooses others: from the cell in the address, or from a filter.
    """

    parameters: Mapping[str, str | Sequence[str]]
    choice: Mapping[str, str] = field(default_factory=dict)
    preferred: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def first_names(self) -> dict[str, str]:
        """The name that pages show first, by kind."""
        return {**{kind: names[0] for kind, names in self.preferred.items() if names}, **self.choice}

    def link(self, page: str, /, **state: str | Sequence[str] | None) -> str:
        """Return the address of a page that shows this context, changed by some parameters."""
        return link(page, **{**self.parameters, **state})


def context_of(path: Path) -> PageContext:
    """Read the context from the address, without names that the published copy does not have."""
    try:
        names = grid_names(path)
        cells: pd.DataFrame = ask(catalog.cells, path)
    except DatabaseError:
        return PageContext({})
    filters = {kind: [name for name in query_values(FILTERS[kind]) if name in names[kind]] for kind in FILTERS}
    parameters: dict[str, str | Sequence[str]] = {FILTERS[kind]: values for kind, values in filters.items() if values}
    of_cell = _names_of_cell(cells)
    names_in_address = {**of_cell, **{kind: query_values(kind)[-1] for kind in CHOICES if query_values(kind)}}
    choice = {kind: names_in_address[kind] for kind in CHOICES if names_in_address.get(kind) in names[kind]}
    preferred = {kind: [of_cell[kind]] if kind in of_cell else filters[kind] for kind in FILTERS}
    return PageContext(parameters | choice, choice, preferred)


def _names_of_cell(cells: pd.DataFrame) -> dict[str, str]:
    """Return the names of the cell whose identifier the address has. Return no names for an unknown identifier."""
    cell_id = next((query_values(parameter)[-1] for parameter in _CELLS if query_values(parameter)), None)
    rows = cells[cells["cell_id"] == cell_id].to_dict("records") if cell_id else []
    return {kind: row[kind] for row in rows for kind in CHOICES if isinstance(row[kind], str)}


def show_links(pages: Mapping[str, StreamlitPage], current: StreamlitPage, context: PageContext) -> None:
    """Show a link to each page in the sidebar.

    The address of each link has the context and the last state of its page, without names of things in the data.
    """
    last_states: dict[str, dict[str, Any]] = st.session_state.setdefault(_SHOWN, {})
    shared = {*FILTERS.values(), *CHOICES}
    here = {name: query_values(name) for name in st.query_params if name not in shared}
    last_states[current.title] = {name: values for name, values in here.items() if name not in _OF_DATA}
    for page in pages.values():
        is_current = page.title == current.title
        state = {**context.parameters, **(here if is_current else last_states.get(page.title, {}))}
        st.sidebar.page_link(current if is_current else page, query_params=state)


@contextmanager
def folded(title: str) -> Iterator[None]:
    """Show selectors that a narrow screen folds behind a switch with a title, so that the answer comes first.

    A page has one such switch. `pages.css` folds it.
    """
    st.container(key="fold").toggle(f"Choose: {title}", key="fold switch")
    with st.container(key="folded"):
        yield


def choose(path: Path, kinds: Sequence[str], leaderboard: Leaderboard) -> dict[str, Any] | None:
    """Show a select for each kind, with the names that go with those before it. Return the first cell with these names.

    The control offers the names of a leaderboard. If it has none, they are the names of the other leaderboards. Return
    None if no cell has all the names.
    """
    all_cells: pd.DataFrame = ask(catalog.cells, path)
    context = context_of(path)
    for cell in set(query_values("cell")) - set(all_cells["cell_id"]):
        st.warning(escaped(f"There is no cell {cell!r} here. The page shows another cell instead."))
    cells = all_cells.dropna(subset=list(kinds))
    if cells.empty:
        return None
    of_leaderboard = cells[cells["leaderboard"] == leaderboard]
    cells = cells if of_leaderboard.empty else of_leaderboard
    with folded(" · ".join(COORDINATE_TITLES[kind] for kind in kinds)):
        columns = st.columns(len(kinds))
    for column, kind in zip(columns, kinds, strict=True):
        names = list(dict.fromkeys(cells[kind]))
        default = next((name for name in context.preferred.get(kind, ()) if name in names), None)
        if kind == "calibrator" and default is None:
            default = _best_calibrator(path, cells)
        default = default or next(iter(cells.loc[cells["status"] == "done", kind]), None)
        # Another data set has other questions, and another LLM other trajectories.
        resets = {"dataset": ["question", "trajectory"], "llm": ["trajectory"]}.get(kind, [])
        name = column.selectbox(COORDINATE_TITLES[kind], names, **bound(kind, names, default, resets=resets))
        cells = cells[cells[kind] == name]
    return dict(cells.iloc[0])


def _best_calibrator(path: Path, cells: pd.DataFrame) -> str | None:
    """Return the calibrator of the lowest mean Brier score of these cells; None if none has been measured."""
    board: pd.DataFrame = ask(catalog.leaderboard, path, table="calibration")
    if RANKING_METRIC not in board:
        return None
    measured_cells = board[board["cell_id"].isin(cells["cell_id"])].dropna(subset=[RANKING_METRIC])
    means = measured_cells.groupby("calibrator")[RANKING_METRIC].mean()
    return None if means.empty else str(means.idxmin())


def choose_group(path: Path, leaderboard: Leaderboard) -> dict[str, str] | None:
    """Let the reader choose a setting: one data set, one LLM and one PRM. Return None if the run has no settings."""
    cell = choose(path, SETTING, leaderboard)
    return None if cell is None else {kind: str(cell[kind]) for kind in SETTING}


def choose_leaderboard(tables: Sequence[Leaderboard], *resets: str) -> Leaderboard:
    """Let the reader choose a leaderboard. By default, it is the leaderboard of the first cell in the parameters.

    The parameters `resets` have identifiers of cells, which another leaderboard does not have.
    """
    # An identifier begins with its leaderboard.
    in_address = [cell.partition("/")[0] for parameter in resets for cell in query_values(parameter)]
    leaderboard: Leaderboard = st.segmented_control(
        "Leaderboard",
        tables,
        format_func=lambda table: LEADERBOARDS[table].title,
        required=True,
        label_visibility="collapsed",
        **bound("leaderboard", tables, next((name for name in tables if name in in_address), None), resets=resets),
    )
    return leaderboard
