"""The table of a leaderboard, which sorts, searches and turns pages in the browser."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import streamlit as st

from prmcal.dashboard.controls.address import address_of, given_names, write_address
from prmcal.dashboard.controls.context import RUN
from prmcal.dashboard.controls.links import OPEN_LINKS_HERE
from prmcal.dashboard.controls.selection import grid_names
from prmcal.dashboard.data import ask
from prmcal.db.html import asset
from prmcal.db.html.table import FILTERS, TIER, leaderboard_table, table_json
from prmcal.db.metrics import Leaderboard
from prmcal.db.reader import fingerprint

__all__ = ["prepare_board", "show_board"]

_KEY = "leaderboard_table"
_STATE = ("sort", "search", "columns", "page", "row", TIER, *FILTERS.values())
_SHARED = (RUN, TIER, *FILTERS.values())  # what links to other pages keep

# The colours of the page's theme under the names that table.css uses.
_COLOURS = """
.leaderboard { font-family: var(--st-font);
  --ink: var(--st-text-color); --paper: var(--st-background-color); --band: var(--st-secondary-background-color);
  --link: var(--st-link-color); --bad: var(--st-red-text-color, var(--ink));
  --line: color-mix(in srgb, var(--ink) 20%, var(--paper)); --soft: color-mix(in srgb, var(--ink) 78%, var(--paper)); }
"""

# The table answers to a choice at once and then sends its state to Python, which writes the address. A state that comes
# back is already shown; any other one comes from the address, such as after a step back.
_HOST = """
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".board");
  const page = (name, query) => `${name}?${new URLSearchParams([...data.shared, ...Object.entries(query)])}`;
  const text = (state) => JSON.stringify(Object.entries(state).filter(([, values]) => values.length).sort());
  if (!root.view) {
    const sent = [];
    let waiting = null;
    const host = {
      read: () => root.data.state,
      write: (state) => {
        clearTimeout(waiting);
        waiting = setTimeout(() => {
          sent.push(text(state));
          root.send("chosen", state);
        }, root.getRootNode().activeElement?.type === "search" ? 400 : 0);
      },
      link: (cell, name) => (name === "calibrator" ? root.page("calibration", { cell }) : null),
      compare: (a, b) => root.page("compare", { a, b }),
    };
    root.sent = sent;
    openLinksHere(root);
    root.start = (table) => mountTable(root, table, host);
  }
  const before = root.data;
  Object.assign(root, { data, page, send: setTriggerValue });
  const known = root.sent.indexOf(text(data.state));
  if (known >= 0) root.sent.splice(0, known + 1);
  if (!root.view) root.view = root.start(JSON.parse(data.table));
  else if (before.table !== data.table) root.view.update(JSON.parse(data.table));
  else if (known < 0 && !root.sent.length && text(before.state) !== text(data.state)) root.view.restore();
}
"""


def show_board(path: Path, leaderboard: Leaderboard) -> None:
    """Show a leaderboard of a published database. Its search, filters, order, columns and page are in the address."""
    address = address_of()
    names = asdict(grid_names(path))
    address |= {parameter: given_names(parameter, names[kind]) for kind, parameter in FILTERS.items()}
    _component()(
        data={
            "table": _data(str(path), fingerprint(path), leaderboard),
            "state": {name: address.get(name, []) for name in _STATE},
            "shared": [[name, value] for name in _SHARED for value in address.get(name, [])],
        },
        key=_KEY,
        on_chosen_change=_write_address,
    )


def prepare_board(path: Path, leaderboard: Leaderboard) -> None:
    """Compute the data of the table, into the cache of the server."""
    _data(str(path), fingerprint(path), leaderboard)


def _write_address() -> None:
    chosen: dict[str, list[str]] = st.session_state[_KEY]["chosen"] or {}
    write_address(chosen)


@functools.cache
def _component() -> Callable[..., Any]:
    return st.components.v2.component(
        "prmcal_leaderboard",
        html='<div class="board"></div>',
        css=asset("table.css") + _COLOURS,
        js=f"{asset('table.js')}\n{OPEN_LINKS_HERE}{_HOST}",
    )


@st.cache_data(max_entries=8, show_spinner=False)
def _data(path: str, fingerprint: tuple[int, int, int] | None, leaderboard: Leaderboard) -> str:
    cells, described = ask(Path(path), "leaderboard", table=leaderboard), ask(Path(path), "metrics")
    return table_json(leaderboard_table(cells, leaderboard, described))
