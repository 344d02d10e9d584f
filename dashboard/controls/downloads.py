"""Downloading a table: CSV and Parquet with all columns, Markdown and LaTeX for reading."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pandas as pd
import streamlit as st

from prmcal.db.text.board import Board

__all__ = ["files_of", "show_downloads"]

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
