"""Long tables, a page at a time."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound

__all__ = ["page_of", "rows_of_page"]

_ROWS = 54


def page_of(total: int, size: int) -> int:
    """Let a reader turn pages where `total` rows fill more than one of `size`; the page turned to, from 0."""
    pages = -(-total // size)
    if pages < 2:
        return 0
    return min(st.pagination(pages, **bound("page")), pages) - 1


def rows_of_page(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the page that a reader has turned to."""
    start = _ROWS * page_of(len(table), _ROWS)
    return table.iloc[start : start + _ROWS]
