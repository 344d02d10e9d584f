"""Page Leaderboard: who is ahead, with a line for each competitor, and all cells."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls import context, widgets
from prmcal.dashboard.controls.widgets import ask, bound_several, bound_text, query_values
from prmcal.dashboard.formats import escaped, integer
from prmcal.dashboard.views.shared import best_first, show_html, show_question
from prmcal.db import catalog
from prmcal.db.html.boards import cells_html, competition_html
from prmcal.db.metrics import SETTING, Leaderboard
from prmcal.db.overview.competition import (
    KINDS,
    Competition,
    Competitor,
    Kind,
    competition,
    competition_frame,
    of_calibrators,
)
from prmcal.db.queries.cells import with_names
from prmcal.db.text.answer import PLURALS, winner
from prmcal.db.text.board import Board, web_board
from prmcal.db.text.formats import LEADERBOARDS
from prmcal.db.text.overview import tests_text

_MOST = 200
"""The most cells in the table of all cells. The file has the other rows."""
_STATE = ("view", "rows", "table", "columns", "search", "sort", "row")


def show(path: Path) -> None:
    """Show the page for a published database."""
    answer = show_question("Who is ahead?")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view = widgets.choose_view(["Ranking", "All cells"], resets=["sort", "row", "search"])
        if view != "All cells":
            titles = {PLURALS[kind][:1].upper() + PLURALS[kind][1:]: kind for kind in KINDS}
            title = widgets.choose_view(list(titles), "rows", resets=["sort", "row", "search"])
            kind = titles.get(title, "calibrator")
        else:
            present = set(ask(catalog.cells, path)["leaderboard"])
            tables: dict[str, Leaderboard] = {
                LEADERBOARDS[name].title: name for name in LEADERBOARDS if name in present
            }
            table = tables[widgets.choose_view(list(tables), "table", resets=["sort", "row", "columns"])]
        field = st.text_input(
            "Search", placeholder="Search", width=170, label_visibility="collapsed", **bound_text("search")
        )
        download = st.container(width="content")
    if view != "All cells":
        _show_ranking(path, kind, field.strip().lower(), answer, download)
    else:
        _show_cells(path, table, field.strip().lower(), answer, download)


def _address(path: Path, **changes: str | Sequence[str] | None) -> str:
    """Return the address of this page in its state with some changes."""
    state = {name: query_values(name) for name in _STATE if query_values(name)}
    return context.context_of(path).link("leaderboard", **{**state, **changes})


def _sorted_by() -> str:
    return "".join(query_values("sort")[-1:])


def _toggled(key: str) -> str | None:
    """Return the order by a column, or the reverse order if this order is chosen already."""
    return f"-{key}" if key == _sorted_by() and key else key or None


def _show_ranking(path: Path, kind: Kind, text: str, answer: Any, download: Any) -> None:
    kinds = [name for name in context.FILTERS if name != "strategy" or kind == "strategy"]
    names = context.filter_by(path, *kinds)
    if kind == "calibrator":
        settings = {name: names[name] for name in ("dataset", "llm", "prm")}
        board = of_calibrators(ask(catalog.overview, path, **settings), names["calibrator"])
    else:
        board = ask(competition, path, kind, **names)
    if not board.settings:
        st.info("The grid of this run has no such cells.")
        return
    answer.markdown(f"**{escaped(winner(board))}**")
    _summary(_cells(path, "league" if kind == "strategy" else "calibration"), answer)
    with download:
        widgets.show_download(
            f"{kind}-ranking", lambda: competition_frame(board).to_csv(index=False, lineterminator="\n")
        )
    chosen_names = query_values("row")
    show_html(
        competition_html(
            board,
            _arranged(board, [row for row in board.rows if text in row.name.lower()]),
            cell=_cell_links(path, "league" if kind == "strategy" else "calibration"),
            row=lambda name: _address(path, row=None if name in chosen_names else name),
            sort=lambda key: _address(path, sort=_toggled(key)),
            chosen=chosen_names,
        )
    )
    for row in (*board.rows, *([board.reference] if board.reference else [])):
        if row.name in chosen_names:
            _show_row(path, kind, row)


def _arranged(board: Competition, rows: list[Competitor]) -> list[Competitor]:
    """Return the rows in the order in the address; rows without a value last."""
    key = _sorted_by()
    order = key.removeprefix("-")
    if order == "name":
        return sorted(rows, key=lambda row: row.name, reverse=key.startswith("-"))
    if order != "mean" and not (order.isdecimal() and int(order) < len(board.settings)):
        return rows
    lower = board.kind in ("prm", "llm") or (order != "mean" and board.kind == "calibrator")
    sign = (1 if lower else -1) * (-1 if key.startswith("-") else 1)

    def sort_key(row: Competitor) -> tuple[bool, float]:
        mean = row.mean if order == "mean" else row.cells.get(board.settings[int(order)])
        return (mean is None or mean.value != mean.value, 0.0 if mean is None else sign * mean.value)

    return sorted(rows, key=sort_key)


def _cell_links(path: Path, page: str) -> Any:
    """Return a function that gives the address of the page that shows the setting of a cell."""
    cells = ask(catalog.cells, path).set_index("cell_id")[list(context.CHOICES)]
    names_of = cells.astype(object).where(cells.notna(), None).to_dict("index")
    here = context.context_of(path)
    return lambda cell_id: here.link(page, **names_of[cell_id])


def _show_row(path: Path, kind: Kind, row: Competitor) -> None:
    """Show the tests of a chosen row, and where to read on."""
    here = context.context_of(path)
    tests = f": {tests_text(row.outcomes)}" if row.outcomes else ""
    page = (
        ("League", here.link("league"))
        if kind == "strategy"
        else ("Calibration", here.link("calibration", **{kind: row.name}))
    )
    show_html(
        f'<div class="ov"><p><strong>{escape(row.name)}</strong>{escape(tests)}. {_link(*page)}</p></div>', row.name
    )


def _show_cells(path: Path, table: Leaderboard, text: str, answer: Any, download: Any) -> None:
    cells = _cells(path, table)
    _summary(cells, answer)
    filters = context.filter_by(path, *(kind for kind in context.FILTERS if cells[kind].notna().any()))
    filtered = with_names(cells, filters)
    with download:
        widgets.show_download(table, lambda: cells.to_csv(index=False, lineterminator="\n"))
    if filtered.empty:
        st.info("No cell matches the filters in the sidebar.")
        return
    descriptions = ask(catalog.metrics, path)
    metric_names = [name for name in filtered if f"{name}_low" in filtered and filtered[name].notna().any()]
    main = [name for name in LEADERBOARDS[table].main_metrics if name in metric_names]
    columns = st.multiselect(
        "Columns",
        metric_names,
        format_func=descriptions.title,
        placeholder="Names only",
        label_visibility="collapsed",
        **bound_several("columns", metric_names, main),
    )
    matching = filtered[filtered["cell_id"].str.lower().str.contains(text, regex=False)] if text else filtered
    matching = _ordered(matching, descriptions[main[0]] if main else None)
    answer.markdown(
        f"{integer(len(matching))} of {integer(len(cells))} cells"
        + (f"; the first {_MOST} are shown, the CSV has all" if len(matching) > _MOST else "")
    )
    if matching.empty:
        return
    board = _narrow(web_board(matching.head(_MOST), table, descriptions, columns))
    chosen_cells = [cell for cell in query_values("row") if cell in set(cells["cell_id"])][-2:]
    _show_chosen(path, cells, chosen_cells)
    show_html(
        cells_html(
            board,
            row=lambda cell: _address(path, row=_with(chosen_cells, cell)),
            sort=lambda key: _address(path, sort=_toggled(key)),
            sorted_by=_sorted_by(),
            chosen=chosen_cells,
        )
    )


def _narrow(board: Board) -> Board:
    """Return a board that begins with the number, the competitor and its first metric: a phone shows only these."""
    number, *names = board.columns[: board.names]
    setting_names = [column for column in names if column.key in SETTING]
    first_metric, *other_metrics = board.columns[board.names :]
    who = [column for column in names if column not in setting_names]
    return replace(board, columns=(number, *reversed(who), first_metric, *setting_names, *other_metrics))


def _with(chosen: Sequence[str], cell: str) -> list[str]:
    """Return the chosen cells after a click on a cell: without this cell, or with it and at most one other."""
    return [name for name in chosen if name != cell] if cell in chosen else [*chosen, cell][-2:]


def _ordered(cells: pd.DataFrame, best: Any) -> pd.DataFrame:
    """Return cells in the order in the address, or in the order of the grid with the best of each setting first."""
    key = _sorted_by()
    if key.removeprefix("-") not in cells:
        return best_first(cells, best)
    return cells.sort_values(key.removeprefix("-"), ascending=not key.startswith("-"), kind="stable")


def _show_chosen(path: Path, cells: pd.DataFrame, chosen: Sequence[str]) -> None:
    here = context.context_of(path)
    names = dict(zip(cells["cell_id"], cells["number"], strict=True))
    links = [_link(f"Calibration of #{names[cell]}", _cell_links(path, "calibration")(cell)) for cell in chosen[:1]]
    if len(chosen) == 1:
        links.append(_link("Compare it with another cell", here.link("compare", a=chosen[0])))
    elif chosen:
        cell_a, cell_b = chosen
        text = f"Compare #{names[cell_a]} with #{names[cell_b]}"
        links = [_link(text, here.link("compare", a=cell_a, b=cell_b))]
    text = " · ".join(links) or "Choose a number to open its cell, or two to compare them."
    show_html(f'<div class="ov"><p>{text}</p></div>', "chosen")


def _cells(path: Path, table: Leaderboard) -> pd.DataFrame:
    """Return the cells of a leaderboard. It is the slowest query, so all callers use the same arguments."""
    cells: pd.DataFrame = ask(catalog.leaderboard, path, table=table)
    return cells


def _link(text: str, address: str) -> str:
    return f'<a href="{escape(address)}" target="_self">{escape(text)}</a>'


def read_overview(path: Path) -> None:
    """Read the content of the first page, without filters, from a published database into the cache of the server.

    Raises a DatabaseError if the database is missing or damaged.
    """
    ask(catalog.cells, path)
    context.grid_names(path)
    ask(catalog.overview, path, dataset=None, llm=None, prm=None)


def read_leaderboards(path: Path) -> None:
    """Read the leaderboards as :func:`read_overview` reads the first page."""
    for table in LEADERBOARDS:
        _cells(path, table)


def _summary(cells: pd.DataFrame, answer: Any) -> None:
    """Say how many cells have failed or are pending. A table without such cells speaks for itself."""
    counts = cells["status"].value_counts()
    unfinished = [f"{counts[status]} {status}" for status in ("failed", "pending") if status in counts]
    if unfinished:
        answer.markdown(" · ".join([f"{counts.get('done', 0)} of {len(cells)} cells done", *unfinished]))
