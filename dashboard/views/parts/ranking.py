"""A leaderboard on page Leaderboard: the table, downloads, and a chart of one metric that opens below them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.calibration import interval_chart
from prmcal.dashboard.charts.cells import interval_rows
from prmcal.dashboard.charts.findings import draw
from prmcal.dashboard.controls.downloads import files_of, show_downloads
from prmcal.dashboard.controls.options import choose_metric
from prmcal.dashboard.controls.selection import GridNames
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import escaped
from prmcal.dashboard.views.parts.board import prepare_board, show_board
from prmcal.db.charts import colour_scale, shape_scale
from prmcal.db.metrics import Leaderboard, Metrics
from prmcal.db.reader import fingerprint
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.db.text.readable import readable_leaderboard

__all__ = ["read_ahead", "show_ranking"]

_CHARTS_IN_A_ROW = 2


def show_ranking(path: Path, grid: GridNames, table: Leaderboard) -> None:
    """Show the calibration leaderboard or the scaling leaderboard."""
    cells = ask(path, "leaderboard", table=table)
    if cells.empty:
        st.info("The grid of this run has no such cells.")
        return
    _summary(cells)
    show_board(path, table)
    show_downloads(table, _files(str(path), fingerprint(path), table))
    chart = st.expander("Chart of one metric with all intervals", key="chart_open", on_change="rerun")
    if chart.open:
        with chart:
            _charts(cells[cells["status"] == "done"], table, grid, ask(path, "metrics"))


def read_ahead(path: Path) -> None:
    """Compute what the page shows of both leaderboards of a published database, into the cache of the server.

    Raises
    ------
    DatabaseError
        If the database is missing or damaged.
    """
    for table in LEADERBOARDS:
        if not ask(path, "leaderboard", table=table).empty:
            prepare_board(path, table)
            _files(str(path), fingerprint(path), table)


@st.cache_data(max_entries=8, show_spinner=False)
def _files(path: str, fingerprint: tuple[int, int, int] | None, table: Leaderboard) -> dict[str, str | bytes]:
    cells, described = ask(Path(path), "leaderboard", table=table), ask(Path(path), "metrics")
    shown = LEADERBOARDS[table].main_metrics
    return files_of(cells, readable_leaderboard(cells, table, described, shown))


def _summary(cells: pd.DataFrame) -> None:
    """Say how many cells have failed or are pending. A table without such cells speaks for itself."""
    counts = cells["status"].value_counts()
    others = [f"{counts[status]} {status}" for status in ("failed", "pending") if status in counts]
    if others:
        st.markdown(" · ".join([f"{counts.get('done', 0)} of {len(cells)} cells done", *others]))


def _charts(cells: pd.DataFrame, table: Leaderboard, grid: GridNames, described: Metrics) -> None:
    measured = [name for name in described if name in cells and cells[name].notna().any()]
    main = [name for name in LEADERBOARDS[table].main_metrics if name in measured]
    names = [*main, *(name for name in measured if name not in main)]
    metric = choose_metric("Metric", names, "chart", described)
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
                f"{metric.title} of every cell on {dataset} with its 95% interval; the table above has the numbers",
            )
    st.caption(
        f"{metric.description} Horizontal lines: 95% intervals. Each calibrator has a colour, each LLM a shape."
    )
