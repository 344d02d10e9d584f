"""Choosing a row of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import write_address

__all__ = ["choose_row"]


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
