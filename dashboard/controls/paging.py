"""Long tables, shown one page at a time."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import PAGE, bound

__all__ = ["choose_page", "rows_of_page"]

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
