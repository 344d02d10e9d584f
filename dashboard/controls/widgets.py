"""Choosing an option, a row or a value, and downloading a table."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound, write_address
from prmcal.db.metrics import Metric, Metrics
from prmcal.db.text.board import Board, narrow_board

SELECT_WIDTH = 260
"""The width of a select box that does not need the width of the page, in pixels."""

TARGET = 0.99
"""The target probability C that a page shows first."""


def choose_view(
    options: Sequence[str], parameter: str = "view", label: str = "", *, resets: Sequence[str] = ()
) -> str:
    """Show options side by side and let the reader choose one. The first is the default.

    Without a label, they are the views of a page. Another view drops the parameters in `resets`.
    """
    chosen: str = st.segmented_control(
        label or "View",
        options,
        required=True,
        label_visibility="visible" if label else "collapsed",
        **bound(parameter, options, resets=resets),
    )
    return chosen


def choose_metric(label: str, names: Sequence[str], parameter: str, described: Metrics) -> Metric:
    """Let the reader choose one of these metrics of the run by its title."""
    name = st.selectbox(
        label, names, format_func=described.title, width=SELECT_WIDTH, **bound(parameter, names)
    )
    return described[name]


def choose_row(shown: pd.DataFrame, key: str, parameters: Mapping[str, str | None]) -> None:
    """Show a table in which the reader can select one row, and write what the row names into the address.

    A new key clears the selection. `parameters` has the column whose value each query parameter gets; None removes the
    parameter. Fractions have three decimal places.
    """

    def write() -> None:
        for row in st.session_state[key].selection.rows:
            chosen = shown.iloc[row]
            write_address(
                {name: str(chosen[column]) if column else None for name, column in parameters.items()}
            )

    fractions = shown.select_dtypes("floating").columns
    st.dataframe(
        shown,
        hide_index=True,
        column_config={name: st.column_config.NumberColumn(format="%.3f") for name in fractions},
        key=key,
        on_select=write,
        selection_mode="single-row",
    )


def choose_target(targets: Sequence[float], parameter: str, about: str) -> float:
    """Let the reader choose the target probability C. `about` explains it."""
    target = st.select_slider(
        "Target probability C", targets, **bound(parameter, targets, TARGET, text="{:g}".format), help=about
    )
    return float(target)


_ROW, _HIGHEST = 35, 700  # pixels of a row, and of a table that scrolls
# The same where cells wrap, and of the first columns: who and where, a metric and its interval.
_NARROW_ROW, _NARROW_WIDTHS = 78, (132, 106, 84)


def show_leaderboard(board: Board, key: str, *, select: bool = False) -> list[int]:
    """Show a board of cells as :func:`show_board` does; on a narrow screen with its first metric on the first screen.

    `pages.css` shows one of the two tables.
    """
    with st.container(key=f"wide {key}"):
        chosen = show_board(board, key, select=select)
    with st.container(key=f"narrow {key}"):
        of_narrow = show_board(narrow_board(board), f"{key} narrow", select=select, narrow=True)
    return chosen or of_narrow


def show_board(board: Board, key: str, *, select: bool = False, narrow: bool = False) -> list[int]:
    """Show a board in a table that sorts and searches. Return the rows that the reader selects, if that is possible.

    A new key clears the selection. With `narrow`, texts wrap, and the first columns have small widths.
    """
    frame, config = frame_of(board)
    row = _NARROW_ROW if narrow else _ROW
    if narrow:
        for title, width in zip(frame, _NARROW_WIDTHS, strict=False):
            config.setdefault(title, st.column_config.Column())["width"] = width
    chosen: Any = st.dataframe(
        frame,
        hide_index=True,
        column_config=config,
        placeholder="",
        height=min(_ROW + row * len(frame) + 3, _HIGHEST),
        row_height=row,
        key=key,
        on_select="rerun" if select else "ignore",
        selection_mode="multi-row",
    )
    return [row for row in chosen.selection.rows if row < len(frame)] if select else []


def frame_of(board: Board) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return a board as a table with numbers to sort by, and how it shows them. An interval has its own column."""
    content: dict[str, Sequence[Any]] = {}
    config: dict[str, Any] = {}
    for column in board.columns:
        if not column.numbers:
            content[column.title] = column.values
            continue
        content[column.title] = column.numbers
        whole = all(math.isnan(each) or each.is_integer() for each in column.numbers)
        config[column.title] = st.column_config.NumberColumn(
            format="%d" if whole and not column.about else "%.3f", help=column.about or None
        )
        ends = [text.partition(" ")[2].strip() for text in column.values]
        if any(ends):
            content[f"{column.title}, 95%"] = ends
    return pd.DataFrame(content), config


def show_download(name: str, csv: Callable[[], str]) -> None:
    """Show the button that downloads a table as CSV. `prmcal leaderboard` and `prmcal report` write other formats.

    `csv` makes the file when the reader asks for it, because that takes seconds for thousands of cells.
    """
    st.download_button(
        "CSV",
        csv,
        file_name=f"{name}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        help="Download this table as CSV",
    )
