"""A leaderboard on page Leaderboard: filters, charts of one metric, and the ranked table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.intervals import interval_chart
from prmcal.dashboard.charts.style import colour_scale, draw, shape_scale
from prmcal.dashboard.controls.address import bound, bound_several
from prmcal.dashboard.controls.context import CHOICES, Context, context_of
from prmcal.dashboard.controls.downloads import show_downloads
from prmcal.dashboard.controls.options import SELECT_WIDTH, choose_metric
from prmcal.dashboard.controls.paging import rows_of_page
from prmcal.dashboard.controls.selection import KINDS, GridNames, filter_by
from prmcal.dashboard.data import ask
from prmcal.dashboard.frames.cells import interval_rows
from prmcal.dashboard.text.formats import MISSING, coordinates, escaped, estimate, integers, names
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.metrics import Leaderboard, Metric
from prmcal.db.statistics.standings import last_places, merit
from prmcal.db.text.presentation import (
    COORDINATE_TITLES,
    LEADERBOARDS,
    SYMBOLS,
    leaderboard_legend,
    metric_title,
    metrics_of,
)
from prmcal.db.text.readable import readable_leaderboard

__all__ = ["show_ranking"]

_NO_BREAK = "\N{NO-BREAK SPACE}"
_GRID_ORDER = "order of the grid"
_CHARTS_IN_A_ROW = 2


def show_ranking(path: Path, grid: GridNames, table: Leaderboard) -> None:
    """Show the calibration leaderboard or the scaling leaderboard."""
    kinds = [kind for kind in KINDS if kind != "strategy" or table == "scaling"]
    filters = filter_by(grid, *kinds)
    metrics = _choose_metrics(table)
    cells = ask(path, "leaderboard", table=table, **filters)
    if cells.empty:
        st.info("No cell matches the filters in the sidebar.")
        return
    _summary(cells)
    done = cells[cells["status"] == "done"]
    if len(done) and metrics:
        _charts(done, metrics, grid)
    cells = _sorted(cells, metrics)
    _table(context_of(path), cells, metrics, table)
    show_downloads(table, cells, readable_leaderboard(cells, table, [metric.name for metric in metrics]))
    _failures(cells)


def _choose_metrics(table: Leaderboard) -> list[Metric]:
    known = {metric.title: metric for metric in metrics_of(table)}
    selected = st.sidebar.multiselect(
        "Metrics",
        list(known),
        **bound_several(
            f"{table}_metrics", list(known), list(map(metric_title, LEADERBOARDS[table].main_metrics))
        ),
    )
    return [metric for title, metric in known.items() if title in selected]


def _summary(cells: pd.DataFrame) -> None:
    counts = cells["status"].value_counts()
    parts = [f"{counts.get('done', 0)} of {len(cells)} cells done"]
    parts += [f"{counts[status]} {status}" for status in ("failed", "pending") if status in counts]
    st.caption(" · ".join(parts))


def _charts(cells: pd.DataFrame, metrics: list[Metric], grid: GridNames) -> None:
    metric = choose_metric("Chart", [metric.name for metric in metrics], "chart")
    rows = interval_rows(cells, metric.name)
    if rows.empty:
        st.info(f"No cell has a value for {metric.title}.")
        return
    colours = colour_scale(grid.calibrator, set(rows["series"]))
    shapes = shape_scale(grid.llm, set(rows["llm"]))
    shown = [name for name in grid.dataset if name in set(rows["dataset"])]
    columns = st.columns(min(_CHARTS_IN_A_ROW, len(shown)))
    for place, dataset in enumerate(shown):
        with columns[place % len(columns)]:
            st.markdown(f"**{escaped(dataset)}**")
            own = rows[rows["dataset"] == dataset]
            draw(
                interval_chart(own, metric.title, colours, shapes, zero=metric.better == "near zero"),
                f"{metric.title} of every cell on {dataset} with its 95% interval; the table below has the numbers",
            )
    st.caption(
        f"{metric.description} Horizontal lines: 95% intervals. Each calibrator has a colour, each LLM a shape."
    )


def _sorted(cells: pd.DataFrame, metrics: list[Metric]) -> pd.DataFrame:
    orders = {_GRID_ORDER: None, **{metric.title: metric for metric in metrics}}
    metric = orders[st.selectbox("Sort by", list(orders), width=SELECT_WIDTH, **bound("sort", list(orders)))]
    if metric is None:
        return cells
    value = cells[metric.name]
    keys = -merit(value, metric.better) if metric.better else value
    order = keys.sort_values(kind="stable", na_position="last").index
    return cells.loc[order].reset_index(drop=True)


def _table(context: Context, cells: pd.DataFrame, metrics: list[Metric], table: Leaderboard) -> None:
    found = {kind: cells[kind].dropna().unique() for kind in ("dataset", "llm", "prm")}
    columns = coordinates(cells, *(kind for kind, values in found.items() if len(values) > 1))
    if table == "scaling":
        columns |= coordinates(cells, "strategy", "target", "level", "calibrator")
    else:
        places = cells[list(CHOICES)].to_dict("records")
        columns[COORDINATE_TITLES["calibrator"]] = [
            f"[{escaped(each['calibrator'])}]({context.link('calibration', **each)})" for each in places
        ]
    for metric in metrics:
        last = last_places(cells, metric.name, metric.better)
        columns[metric.title] = [_value(row, metric.name, last) for row in cells.to_dict("records")]
    columns["Questions"] = integers(cells["questions"])
    if table == "calibration":
        columns[LEADERBOARDS[table].rows] = integers(cells["rows"])
    show_table(rows_of_page(pd.DataFrame(columns)))
    common = [
        f"{COORDINATE_TITLES[kind]}: {escaped(values[0])}. "
        for kind, values in found.items()
        if len(values) == 1
    ]
    st.caption(f"{''.join(common)}{leaderboard_legend(SYMBOLS)}")


def _value(row: dict[str, Any], metric: str, last: set[str]) -> str:
    if row["status"] != "done":
        return f"*{row['status']}*"
    if pd.isna(row[metric]):
        return MISSING
    standing = "last" if row["cell_id"] in last else row[f"{metric}_standing"]
    mark = SYMBOLS.get(standing, "")
    letters = row[f"{metric}_letters"]
    marks = f"{mark}{_NO_BREAK}{letters}" if mark and isinstance(letters, str) else mark
    text = escaped(estimate(row[metric], row[f"{metric}_low"], row[f"{metric}_high"], mark=marks))
    return f"**{text}**" if standing == "best" else text


def _failures(cells: pd.DataFrame) -> None:
    failed = cells[cells["status"] == "failed"]
    if failed.empty:
        return
    st.subheader("Failed cells")
    show_table({"Cell": names(failed["cell_id"]), "Reason": names(failed["reason"])})
