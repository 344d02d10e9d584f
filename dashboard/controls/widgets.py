"""Choosing an option, a page, a row or a value, and downloading a table."""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.curves import LEVEL, TARGET, TARGETS
from prmcal.dashboard.controls.address import PAGE, bound, write_address
from prmcal.db.metrics import Metric, Metrics
from prmcal.db.text.board import Board

SELECT_WIDTH = 260
"""The width of a select box that does not need the width of the page, in pixels."""


def choose_view(options: Sequence[str], parameter: str = "view", *, resets: Sequence[str] = (PAGE,)) -> str:
    """Let the reader choose one of the views of a page. The first is the default.

    Another view drops the parameters in `resets`, which name what only this view has.
    """
    return choose_option("View", options, parameter, labelled=False, resets=resets)


def choose_option(
    label: str,
    options: Sequence[str],
    parameter: str,
    *,
    labelled: bool = True,
    resets: Sequence[str] = (PAGE,),
) -> str:
    """Show options side by side and let the reader choose one. The first is the default.

    Without `labelled`, the label is only read by screen readers. Another choice drops the parameters in `resets`.
    """
    chosen: str = st.segmented_control(
        label,
        options,
        required=True,
        label_visibility="visible" if labelled else "collapsed",
        **bound(parameter, options, resets=resets),
    )
    return chosen


def choose_metric(label: str, names: Sequence[str], parameter: str, described: Metrics) -> Metric:
    """Let the reader choose one of these metrics of the run by its title."""
    name = st.selectbox(
        label, names, format_func=described.title, width=SELECT_WIDTH, **bound(parameter, names, resets=())
    )
    return described[name]


_ROWS = 54


def choose_page(total: int, size: int) -> int:
    """Let the reader turn pages if `total` rows need more than one page of `size` rows. Return the page, from 0."""
    pages = -(-total // size)
    if pages < 2:
        return 0
    return int(st.pagination(pages, **bound(PAGE, range(1, pages + 1)))) - 1


def rows_of_page(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the page that the reader has chosen."""
    start = _ROWS * choose_page(len(table), _ROWS)
    return table.iloc[start : start + _ROWS]


def choose_row(
    shown: pd.DataFrame,
    numbers: dict[str, str | None],
    key: str,
    parameters: Sequence[str],
    values: Sequence[Sequence[Any]],
    widths: Mapping[str, int] | None = None,
) -> None:
    """Show a table in which the reader can select one row, and write the values of this row into the address.

    The page of the table stays.

    Parameters
    ----------
    shown : DataFrame
        The table.
    numbers : dict
        The columns with three decimal places, and the help text of each.
    key : str
        The key of the widget. A new key clears the selection.
    parameters : sequence of str
        Query parameters.
    values : sequence of sequences
        The values of these parameters for each row. None removes a parameter.
    widths : mapping of str to int, optional
        The columns of text that are cut at a number of pixels, so that those after them are seen on a phone.
    """

    def write() -> None:
        for row in st.session_state[key].selection.rows:
            write_address(
                {
                    name: None if value is None else str(value)
                    for name, value in zip(parameters, values[row], strict=True)
                }
            )

    st.dataframe(
        shown,
        hide_index=True,
        column_config={
            **{
                name: st.column_config.NumberColumn(format="%.3f", help=text)
                for name, text in numbers.items()
            },
            **{name: st.column_config.TextColumn(width=width) for name, width in (widths or {}).items()},
        },
        key=key,
        on_select=write,
        selection_mode="single-row",
    )


# The reader uses the sliders of the page, and not those that Vega shows.
_HIDDEN = "<style>.vega-embed .vega-bindings { display: none !important }</style>"


DEFAULT_TARGET = 0.99
"""The target probability C that a page shows first."""


def choose_target() -> float:
    """Let the reader choose C, one of :data:`prmcal.dashboard.charts.curves.TARGETS`."""
    with st.container(key=f"slider-{TARGET}"):
        target = st.select_slider(
            "Target probability C",
            TARGETS,
            **bound(TARGET, TARGETS, DEFAULT_TARGET, text="{:g}".format),
            help="IAS draws so many samples that at least one of them is correct with probability C",
        )
    return float(target)


def choose_level(levels: Sequence[float]) -> float:
    """Let the reader choose beta if there are several levels. The first is the default."""
    if len(levels) < 2:
        return levels[0]
    with st.container(key=f"slider-{LEVEL}"):
        level = st.select_slider(
            "Quantile level β",
            levels,
            **bound(LEVEL, levels, text="{:g}".format),
            help="IAS uses this quantile of the success probability. Calibrators without it use their point estimate",
        )
    return float(level)


def connect_sliders() -> None:
    """Let the charts of the page follow its sliders (:mod:`prmcal.dashboard.charts.scaling`)."""
    st.html(_HIDDEN)
    _follower()(data=[TARGET, LEVEL], key="follower")


@functools.cache
def _follower() -> Any:
    script = Path(__file__).with_name("follow.js").read_text(encoding="utf-8")
    return st.components.v2.component("prmcal_follower", js=script, isolate_styles=False)


_FORMATS = {
    "CSV": ("csv", "text/csv"),
    "Parquet": ("parquet", "application/vnd.apache.parquet"),
    "Markdown": ("md", "text/markdown"),
    "LaTeX": ("tex", "application/x-tex"),
}


def files_of(table: pd.DataFrame, readable: Board) -> dict[str, str | bytes]:
    """Return a table as files, by the titles of their formats.

    Parameters
    ----------
    table : DataFrame
        The content of the CSV and Parquet files.
    readable : Board
        The content of the Markdown and LaTeX files.
    """
    return {
        "CSV": str(table.to_csv(index=False, lineterminator="\n")),
        "Parquet": _parquet(table),
        "Markdown": readable.markdown(),
        "LaTeX": readable.latex(),
    }


def show_downloads(name: str, files: Mapping[str, str | bytes]) -> None:
    """Show the download buttons of a table.

    Parameters
    ----------
    name : str
        The name of the files, without extension.
    files : mapping
        As :func:`files_of` returns it. A file that is made on demand would be lost if the page is drawn again before
        the browser has fetched it.
    """
    with st.container(horizontal=True):
        for title, (extension, mime) in _FORMATS.items():
            st.download_button(
                title,
                files[title],
                file_name=f"{name}.{extension}",
                mime=mime,
                icon=":material/download:",
                on_click="ignore",
                help=f"Download this table as {title}",
            )


def _parquet(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()
