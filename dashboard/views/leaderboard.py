"""Pages Overview, League and Leaderboard."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.drawn import league_chart
from prmcal.dashboard.charts.trajectory import draw, extremes
from prmcal.dashboard.controls import context, widgets
from prmcal.dashboard.controls.widgets import ask, bound_several
from prmcal.dashboard.formats import CAPTIONS, escaped, integer
from prmcal.dashboard.views.shared import best_first, show_html
from prmcal.db import catalog
from prmcal.db.charts import series_of
from prmcal.db.html.boards import league_html, overview_html
from prmcal.db.metrics import Leaderboard
from prmcal.db.overview.types import Entry, League, Overview, levels_of
from prmcal.db.queries.cells import kept
from prmcal.db.text.board import Board, web_board
from prmcal.db.text.formats import LEADERBOARDS


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Leaderboard")
    tables: dict[str, Leaderboard] = {"Calibration": "calibration", "Scaling": "scaling"}
    chosen = widgets.choose_view(list(tables), "table", resets=["columns"])
    show_ranking(path, tables[chosen])


def show_ranking(
    path: Path, table: Leaderboard, filters: Mapping[str, Sequence[str] | None] | None = None
) -> None:
    """Show a leaderboard with its download.

    `filters` has the names to keep of each kind (None for all). Without filters, the page asks.
    """
    cells = _cells(path, table)
    if cells.empty:
        st.info("The grid of this run has no such cells.")
        return
    _summary(cells)
    # The other page that shows this table has a switch for selectors already.
    columns = context.folded("Columns") if filters is None else st.container(key="folded columns")
    if filters is None:
        filters = context.filter_by(path, *(kind for kind in context.FILTERS if cells[kind].notna().any()))
    shown = kept(cells, filters)
    if shown.empty:
        st.info("No cell matches the filters in the sidebar.")
        return
    every = len(shown) == len(cells)
    st.markdown(
        f"{integer(len(shown))} rows" if every else f"{integer(len(shown))} of {integer(len(cells))} rows"
    )
    measured = [name for name in shown if f"{name}_low" in shown and shown[name].notna().any()]
    with columns:
        chosen = st.multiselect(
            "Columns",
            measured,
            format_func=ask(catalog.metrics, path).title,
            placeholder="Names only",
            **bound_several("columns", measured, _main_metrics(shown, table)),
        )
    names = {kind: each for kind, each in filters.items() if each}
    _show_board(path, shown, table, ask(_boards, path, table=table, filters=names, shown=chosen))
    widgets.show_download(table, lambda: str(cells.to_csv(index=False, lineterminator="\n")))


def _cells(path: Path, table: Leaderboard) -> pd.DataFrame:
    """Return the cells of a leaderboard. It takes the longest of all queries, so it is asked in one way only."""
    found: pd.DataFrame = ask(catalog.leaderboard, path, table=table)
    return found


def _main_metrics(cells: pd.DataFrame, table: Leaderboard) -> list[str]:
    return [name for name in LEADERBOARDS[table].main_metrics if name in cells and cells[name].notna().any()]


def _boards(
    path: Path, table: Leaderboard, filters: Mapping[str, Sequence[str]], shown: Sequence[str]
) -> list[Board]:
    """Return the metrics `shown` of the cells that compete, the best first, and of the references, if there are any."""
    described = ask(catalog.metrics, path)
    cells = kept(_cells(path, table), filters)
    apart, main = _references(path, cells), _main_metrics(cells, table)
    best = described[main[0]] if main else None
    parts = [best_first(part, best) for part in (cells[~apart], cells[apart])]
    return [web_board(part, table, described, shown) for part in parts if len(part)]


def _show_board(path: Path, cells: pd.DataFrame, table: Leaderboard, boards: Sequence[Board]) -> None:
    links, (board, *references) = st.container(), boards
    st.caption(escaped(board.legend))
    rows = widgets.show_leaderboard(board, f"board {table} {hash(board.cells)}", select=True)
    for other in references:
        st.caption("References: uncalibrated rewards, and strategies that need the truth")
        widgets.show_leaderboard(other, f"references {table} {hash(other.cells)}")
    here, names = context.context_of(path), [board.cells[row] for row in rows]
    selected = cells[cells["cell_id"].isin(names)]
    with links:
        if not names:
            st.caption("Select a row to open its cell, or two rows to compare them.")
        elif len(names) == 1:
            compare = _link("Compare it with another cell", here.link("compare", a=names[0]))
            place = {kind: selected[kind].iloc[0] for kind in context.CHOICES}
            page = _link(f"Calibration of {names[0]}", here.link("calibration", **place))
            st.html(f"{page} · {compare}" if table == "calibration" else compare)
        else:
            first, second = names[:2]
            st.html(_link(f"Compare {first} with {second}", here.link("compare", a=first, b=second)))


def _references(path: Path, cells: pd.DataFrame) -> pd.Series:
    """Return which cells are no competitors: those of uncalibrated rewards alone, and those that need the truth."""
    baseline = (
        cells["calibrator"].isin(ask(catalog.with_role, path, role="baseline")) & cells["strategy"].isna()
    )
    found = baseline | cells["cell_id"].isin(ask(catalog.references, path))
    return found & ~found.all()


def _link(text: str, address: str) -> str:
    """Return a link as HTML, which opens in the same tab."""
    return f'<a href="{escape(address)}">{escape(text)}</a>'


def read_ahead(path: Path) -> None:
    """Read what the first pages show of a published database without filters, into the cache of the server.

    Raises a DatabaseError if the database is missing or damaged.
    """
    ask(catalog.cells, path)
    context.grid_names(path)
    ask(catalog.overview, path, dataset=None, llm=None, prm=None)
    for table in LEADERBOARDS:
        cells = _cells(path, table)
        if not cells.empty:
            ask(_boards, path, table=table, filters={}, shown=_main_metrics(cells, table))


def _summary(cells: pd.DataFrame) -> None:
    """Say how many cells have failed or are pending. A table without such cells speaks for itself."""
    counts = cells["status"].value_counts()
    others = [f"{counts[status]} {status}" for status in ("failed", "pending") if status in counts]
    if others:
        st.markdown(" · ".join([f"{counts.get('done', 0)} of {len(cells)} cells done", *others]))


_DRAWN = 7
"""The number of curves that are drawn unless the reader chooses others."""


def show_league(path: Path) -> None:
    """Show the page for a published database."""
    st.title("League")
    filters = context.filter_by(path, *context.FILTERS)
    found: League = ask(catalog.league, path, **filters)
    if not found.rows:
        st.info(_why_empty(path, found))
        return
    show_html(league_html(found))
    st.header("Curves of one place")
    _curves(path, found)
    st.header("All places")
    show_ranking(path, "league", filters)


def _why_empty(path: Path, found: League) -> str:
    if any(found.counts.values()):
        return "No strategy has been measured yet."
    if (ask(catalog.cells, path)["leaderboard"] == "league").any():
        return "No result of the league matches the filters."
    return "The grid of this run has no league. Add `league: true` to the grid file and run it again."


def _curves(path: Path, found: League) -> None:
    left, right = st.columns([3, 2])
    with left:
        group = context.choose_group(path, "league")
    if group is None:
        return
    points: pd.DataFrame = ask(catalog.league_points, path, **group)
    if points.empty:
        st.info("The curves of this data set, LLM and PRM have not been computed yet.")
        return
    entries = [Entry.of(row.strategy, row.calibrator, row.level) for row in points.itertuples()]
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
    st.caption(CAPTIONS["league"])


def show_overview(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Overview")
    filters = context.filter_by(path, "dataset", "llm", "prm")
    found: Overview = ask(catalog.overview, path, **filters)
    here = context.context_of(path)
    chosen = found.cells.set_index("cell_id")[list(context.CHOICES)].to_dict("index")
    show_html(overview_html(found, lambda cell_id: here.link("calibration", **chosen[cell_id])))
