"""Page League: the strategies of a run at equal cost."""

from html import escape
from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.curves import coinciding
from prmcal.dashboard.charts.drawn import league_chart
from prmcal.dashboard.charts.trajectory import draw, extremes
from prmcal.dashboard.controls import context
from prmcal.dashboard.controls.widgets import ask, bound_several
from prmcal.dashboard.formats import CAPTIONS, escaped
from prmcal.dashboard.views.shared import show_html, show_question
from prmcal.db import catalog
from prmcal.db.charts import series_of
from prmcal.db.html.boards import league_html
from prmcal.db.overview.types import Entry, League, levels_of
from prmcal.db.text.formats import LEADERBOARDS

_DRAWN = 7
"""The number of curves that are drawn unless the reader chooses others."""


def show(path: Path) -> None:
    """Show the page for a published database."""
    answer = show_question("Which strategy is best at equal cost?")
    filters = context.filter_by(path, *context.FILTERS)
    league: League = ask(catalog.league, path, **filters)
    if not league.rows:
        st.info(_why_empty(path, league))
        return
    with answer:
        show_html(league_html(league))
    _curves(path, league)
    here = context.context_of(path)
    all_cells = here.link("leaderboard", view="All cells", table=LEADERBOARDS["league"].title)
    links = {"Ranking": here.link("leaderboard", rows="Strategies"), "All cells": all_cells}
    anchors = " · ".join(f'<a href="{escape(address)}">{text}</a>' for text, address in links.items())
    show_html(f'<div class="ov"><p>{anchors}</p></div>', "links")


def _why_empty(path: Path, league: League) -> str:
    if any(league.counts.values()):
        return "No strategy has been measured yet."
    if (ask(catalog.cells, path)["leaderboard"] == "league").any():
        return "No result of the league matches the filters."
    return "The grid of this run has no league. Add `league: true` to the grid file and run it again."


def _curves(path: Path, league: League) -> None:
    setting_column, curve_column = st.columns([3, 2])
    with setting_column:
        group = context.choose_group(path, "league")
    if group is None:
        return
    points: pd.DataFrame = ask(catalog.league_points, path, **group)
    if points.empty:
        st.info("The curves of this data set, LLM and PRM have not been computed yet.")
        return
    entries = [Entry.of(row.strategy, row.calibrator, row.level) for row in points.itertuples()]
    ranked = [row.entry for row in league.rows]
    levels = levels_of([*entries, *ranked])
    points = points.assign(entry=[f"{entry.name}{levels[entry]}" for entry in entries])
    here = set(points["entry"])
    # The best of the league first.
    order = [name for entry in ranked if (name := f"{entry.name}{levels[entry]}") in here]
    order += sorted(here - set(order))
    with curve_column:
        selection = st.multiselect("Curves", order, placeholder=f"The first {_DRAWN}", **bound_several("curves", order))
    bands = coinciding(points, [name for name in order if not selection or name in selection])
    names = {name: f"{name} (+{len(twins)})" if twins else name for name, twins in bands.items()}
    drawn_names = list(names)[:_DRAWN]
    drawn_points = points[points["entry"].isin(drawn_names)].replace({"entry": names})
    highest = drawn_points.groupby("entry")["accuracy"].max()
    finding = extremes("Highest accuracy", highest.index, highest)
    draw(league_chart(drawn_points, series_of(list(names.values()), set(drawn_points["entry"]))), finding)
    for name, twins in bands.items():
        if twins and name in drawn_names:
            st.caption(escaped(f"Like {name}: {', '.join(twins)}."))
    st.caption(CAPTIONS["league"])
