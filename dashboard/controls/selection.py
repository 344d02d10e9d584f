"""The names in a grid, and filters that keep some of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound_several
from prmcal.dashboard.data import ask
from prmcal.db.html.table import FILTERS
from prmcal.db.text.presentation import COORDINATE_TITLES

__all__ = ["KINDS", "GridNames", "filter_by", "grid_names"]

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
