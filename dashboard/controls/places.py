"""The names of a grid, and the choice of some of them in the sidebar."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.data import ask

__all__ = ["TITLES", "Names", "chosen", "chosen_place", "names_of"]

TITLES = {"dataset": "Data set", "llm": "LLM", "prm": "PRM", "calibrator": "Calibrator"}
"""What a reader calls the kinds of plugins that cells of both leaderboards are told apart by."""


@dataclass(frozen=True)
class Names:
    """The names of a grid by their kind, each kind in the order of the grid."""

    dataset: list[str]
    llm: list[str]
    prm: list[str]
    calibrator: list[str]
    strategy: list[str]


def names_of(path: Path) -> Names:
    """Read the names of a published database."""
    plugins: pd.DataFrame = ask(path, "plugins")
    return Names(
        **{kind: list(plugins.loc[plugins["kind"] == kind, "name"]) for kind in (*TITLES, "strategy")}
    )


def chosen(names: Names, *kinds: str) -> dict[str, list[str] | None]:
    """Let a reader keep some names of these kinds, in the sidebar; None where all are kept."""
    return {
        kind: st.sidebar.multiselect(TITLES[kind], getattr(names, kind), **bound(kind), placeholder="All")
        or None
        for kind in kinds
    }


def chosen_place(names: Names) -> dict[str, str]:
    """Let a reader choose one data set, one LLM and one PRM."""
    kinds = ("dataset", "llm", "prm")
    return {
        kind: column.selectbox(TITLES[kind], getattr(names, kind), **bound(kind))
        for column, kind in zip(st.columns(len(kinds)), kinds, strict=True)
    }
