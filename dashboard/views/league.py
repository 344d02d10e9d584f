"""Page League: strategies at equal cost, over all places and at each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.findings import draw
from prmcal.dashboard.charts.scaling import league_chart
from prmcal.dashboard.controls.address import bound_several
from prmcal.dashboard.controls.cells import choose_group
from prmcal.dashboard.controls.context import choose_tier, filter_by, grid_names
from prmcal.dashboard.data import ask
from prmcal.dashboard.views.leaderboard import show_ranking
from prmcal.db import catalog
from prmcal.db.charts import series_of
from prmcal.db.html.overview import league_html, overview_style
from prmcal.db.overview.types import Entry, League, levels_of

_COLOURS = ".ov { --ov-page: var(--st-background-color); }"
_DRAWN = 7
"""The number of curves that are drawn unless the reader chooses others."""

_SHOW = """
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".league");
  if (root.shown === data) return;
  root.shown = data;
  root.innerHTML = data;
}
"""


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("League")
    names = grid_names(path)
    filters = filter_by(names, "dataset", "llm", "prm", "calibrator", "strategy")
    found: League = ask(catalog.league, path, **filters, tier=choose_tier(path))
    if not found.rows:
        st.info(_why_empty(path, found))
        return
    _component()(data=league_html(found), key="league")
    st.header("Curves of one place")
    _curves(path, found)
    st.header("All places")
    show_ranking(path, names, "league", filters)


def _why_empty(path: Path, found: League) -> str:
    if any(found.counts.values()):
        return "No strategy has been measured yet."
    if (ask(catalog.cells, path)["leaderboard"] == "league").any():
        return "No result of the league matches the filters."
    if ask(catalog.is_merged, path):
        return "No submission has results of the league."
    return "The grid of this run has no league. Add `league: true` to the grid file and run it again."


def _curves(path: Path, found: League) -> None:
    """Draw accuracy against samples of the strategies that the reader chooses, at one place."""
    left, right = st.columns([3, 2])
    with left:
        group = choose_group(path, "league")
    if group is None:
        return
    points: pd.DataFrame = ask(catalog.league_points, path, **group)
    if points.empty:
        st.info("The curves of this data set, LLM and PRM have not been computed yet.")
        return
    entries = [_entry(row) for row in points.itertuples()]
    levels = levels_of([*entries, *(row.entry for row in found.rows)])
    points = points.assign(entry=[f"{entry.name}{levels[entry]}" for entry in entries])
    here = set(points["entry"])
    ranked = [f"{row.entry.name}{levels[row.entry]}" for row in found.rows]
    order = [name for name in ranked if name in here]
    others = [name for name in sorted(here) if name not in order]
    with right:
        chosen = st.multiselect(
            "Curves",
            [*order, *others],
            placeholder=f"The {_DRAWN} best",
            **bound_several("curves", [*order, *others]),
        )
    shown = points[points["entry"].isin(chosen or order[:_DRAWN])]
    draw(league_chart(shown, series_of([*order, *others], set(shown["entry"]))), _finding(shown))
    st.caption(
        "Bands: 95% intervals of the accuracy. A point is one setting of the strategy. Between two points, questions "
        "are divided at random between both settings."
    )


def _entry(row: Any) -> Entry:
    calibrator = row.calibrator if isinstance(row.calibrator, str) else ""
    return Entry(row.strategy, calibrator, None if pd.isna(row.level) else float(row.level))


def _finding(points: pd.DataFrame) -> str:
    best = points.loc[points["accuracy"].idxmax()]
    return (
        f"Accuracy against mean samples of {points['entry'].nunique()} strategies. The highest accuracy is "
        f"{best['accuracy']:.3f} by {best['entry']} with {best['samples']:.1f} samples; the table below has all numbers"
    )


@functools.cache
def _component() -> Callable[..., Any]:
    return st.components.v2.component(
        "prmcal_league", html='<div class="league"></div>', css=overview_style() + _COLOURS, js=_SHOW
    )
