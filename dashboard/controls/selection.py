"""The names in a grid, and filters that keep some of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound, bound_several
from prmcal.dashboard.data import ask
from prmcal.db.metrics import TIERS
from prmcal.db.text.presentation import COORDINATE_TITLES
from prmcal.db.text.provenance import VERIFIED, tier_choice

__all__ = ["FILTERS", "KINDS", "TIER", "GridNames", "choose_tier", "filter_by", "grid_names"]

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
    plugins: pd.DataFrame = ask(path, "plugins")
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
    if not ask(path, "is_merged"):
        return None
    tiers = (None, *TIERS)
    chosen: str | None = st.sidebar.selectbox(
        VERIFIED, tiers, format_func=tier_choice, **bound(TIER, tiers, text=lambda tier: tier or "")
    )
    return chosen
