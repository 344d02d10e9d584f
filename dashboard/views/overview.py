"""Page Overview, the landing page: what was found, the ranking of the calibrators, and a heat map of all places."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from prmcal.dashboard.controls.address import OPEN_LINKS_HERE
from prmcal.dashboard.controls.context import choose_tier, context_of, filter_by, grid_names
from prmcal.dashboard.data import ask
from prmcal.db import catalog
from prmcal.db.html.overview import overview_html, overview_style
from prmcal.db.overview.types import Overview

# The background of the page's theme under the name that the style uses.
_COLOURS = ".ov { --ov-page: var(--st-background-color); } .ov h2 { font-size: 1.4rem; font-weight: 600; }"

_SHOW = """
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".overview");
  if (root.shown === data) return;
  root.shown = data;
  root.innerHTML = data;
  openLinksHere(root);
}
"""


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Overview")
    filters = filter_by(grid_names(path), "dataset", "llm", "prm")
    found: Overview = ask(catalog.overview, path, **filters, tier=choose_tier(path))
    context = context_of(path)
    cells = found.cells.set_index("cell_id")

    def link(cell_id: str) -> str:
        place = {kind: cells.at[cell_id, kind] for kind in ("dataset", "llm", "prm", "calibrator")}
        return context.link("calibration", **place)

    _component()(data=overview_html(found, link), key="overview")


@functools.cache
def _component() -> Callable[..., Any]:
    return st.components.v2.component(
        "prmcal_overview",
        html='<div class="overview"></div>',
        css=overview_style() + _COLOURS,
        js=OPEN_LINKS_HERE + _SHOW,
    )
