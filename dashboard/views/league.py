"""Page League: strategies at equal cost, over all places and at each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.findings import draw, extremes
from prmcal.dashboard.charts.scaling import league_chart
from prmcal.dashboard.controls.address import bound_several
from prmcal.dashboard.controls.cells import choose_group
from prmcal.dashboard.controls.context import choose_tier, filter_by, grid_names
from prmcal.dashboard.data import ask
from prmcal.dashboard.views.leaderboard import show_ranking
from prmcal.dashboard.views.shared import show_html
from prmcal.db import catalog
from prmcal.db.charts import series_of
from prmcal.db.html.overview import league_html
from prmcal.db.overview.types import Entry, League, levels_of

_DRAWN = 7
"""The number of curves that are drawn unless the reader chooses others."""


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("League")
    names = grid_names(path)
    filters = filter_by(names, "dataset", "llm", "prm", "calibrator", "strategy")
    found: League = ask(catalog.league, path, **filters, tier=choose_tier(path))
    if not found.rows:
        st.info(_why_empty(path, found))
        return
    show_html(league_html(found))
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
    ranked = [row.entry for row in found.rows]
    levels = levels_of([*entries, *ranked])
    points = points.assign(entry=[f"{entry.name}{levels[entry]}" for entry in entries])
    here = set(points["entry"])
    # The best of the league first.
    order = [name for entry in ranked if (name := f"{entry.name}{levels[entry]}") in here]
    order += sorted(here - set(order))
    with right:
        chosen = st.multiselect(
            "Curves", order, placeholder=f"The {_DRAWN} best", **bound_several("curves", order)
        )
    shown = points[points["entry"].isin(chosen or order[:_DRAWN])]
    highest = shown.groupby("entry")["accuracy"].max()
    finding = extremes("Highest accuracy", highest.index, highest)
    draw(league_chart(shown, series_of(order, set(shown["entry"]))), finding)
    st.caption(
        "Bands: 95% intervals of the accuracy. A point is one setting of the strategy. Between two points, questions "
        "are divided at random between both settings."
    )


def _entry(row: Any) -> Entry:
    calibrator = row.calibrator if isinstance(row.calibrator, str) else ""
    return Entry(row.strategy, calibrator, None if pd.isna(row.level) else float(row.level))
