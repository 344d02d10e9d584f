"""A table to take along: as CSV and Parquet with every number, as Markdown and LaTeX for reading."""

from __future__ import annotations

import io
from collections.abc import Callable

import pandas as pd
import streamlit as st

from db.readable import Readable

__all__ = ["downloads"]


def downloads(name: str, table: pd.DataFrame, readable: Callable[[], Readable]) -> None:
    """Show the four buttons. Files are made when a button is pressed.

    Parameters
    ----------
    name : str
        Of the files, without an ending.
    table : DataFrame
        What CSV and Parquet hold.
    readable : callable
        Makes what Markdown and LaTeX hold.
    """
    files: dict[str, tuple[str, str, Callable[[], bytes | str]]] = {
        "CSV": ("csv", "text/csv", lambda: str(table.to_csv(index=False, lineterminator="\n"))),
        "Parquet": ("parquet", "application/vnd.apache.parquet", lambda: _parquet(table)),
        "Markdown": ("md", "text/markdown", lambda: readable().markdown()),
        "LaTeX": ("tex", "application/x-tex", lambda: readable().latex()),
    }
    with st.container(horizontal=True):
        for title, (ending, mime, content) in files.items():
            st.download_button(
                title,
                content,
                file_name=f"{name}.{ending}",
                mime=mime,
                icon=":material/download:",
                on_click="ignore",
                help=f"Download this table as {title}",
            )


def _parquet(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()
