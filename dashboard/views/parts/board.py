"""The table of a leaderboard, which sorts, searches and turns pages in the browser."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from prmcal.dashboard.data import ask
from prmcal.db.html import asset
from prmcal.db.html.table import leaderboard_table, table_json
from prmcal.db.metrics import Leaderboard
from prmcal.db.reader import fingerprint

__all__ = ["show_board"]

# The colours of the page's theme under the names that table.css uses.
_COLOURS = """
.leaderboard { font-family: var(--st-font);
  --ink: var(--st-text-color); --paper: var(--st-background-color); --band: var(--st-secondary-background-color);
  --link: var(--st-link-color); --bad: var(--st-red-text-color, var(--ink));
  --line: color-mix(in srgb, var(--ink) 20%, var(--paper)); --soft: color-mix(in srgb, var(--ink) 78%, var(--paper)); }
"""

# The state of the table is in the address and nowhere else. Streamlit sends the address with each rerun, so it stays.
_HOST = """
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector("div");
  if (root.shown === data.table) return;
  const table = JSON.parse(data.table);
  const page = (name, query) => `${name}?${new URLSearchParams(query)}`;
  const host = {
    read: () => Object.fromEntries(new URLSearchParams(location.search)),
    write: (state) => {
      const address = new URL(location.href);
      for (const [name, value] of Object.entries(state)) {
        if (value) address.searchParams.set(name, value);
        else address.searchParams.delete(name);
      }
      history.replaceState(history.state, "", address);
    },
    link: (cell, name) => (name === "calibrator" ? page("calibration", { cell }) : null),
    compare: (a, b) => page("compare", { a, b }),
  };
  if (root.view && root.title !== table.title) host.write(root.view.empty());
  if (root.view) root.view.update(table);
  else root.view = mountTable(root, table, host);
  root.shown = data.table;
  root.title = table.title;
}
"""


def show_board(path: Path, leaderboard: Leaderboard) -> None:
    """Show a leaderboard of a published database. Its search, filters, order, columns and page are in the address."""
    _component()(data={"table": _data(str(path), fingerprint(path), leaderboard)}, key="leaderboard_table")


@functools.cache
def _component() -> Callable[..., Any]:
    return st.components.v2.component(
        "prmcal_leaderboard",
        html="<div></div>",
        css=asset("table.css") + _COLOURS,
        js=asset("table.js") + _HOST,
    )


@st.cache_data(max_entries=8, show_spinner=False)
def _data(path: str, fingerprint: tuple[int, int, int] | None, leaderboard: Leaderboard) -> str:
    cells = ask(Path(path), "leaderboard", table=leaderboard)
    return table_json(leaderboard_table(cells, leaderboard))
