"""Downloading a table: CSV and Parquet with all columns, Markdown and LaTeX for reading."""

from __future__ import annotations

import io

import pandas as pd
import streamlit as st

from prmcal.db.text.readable import Readable

__all__ = ["show_downloads"]


def show_downloads(name: str, table: pd.DataFrame, readable: Readable) -> None:
    """Show the download buttons of a table.

    Parameters
    ----------
    name : str
        The name of the files, without extension.
    table : DataFrame
        The content of the CSV and Parquet files.
    readable : Readable
        The content of the Markdown and LaTeX files.
    """
    # The files are made here and not when a button is pressed. A file that is made on demand is lost if the page is
    # drawn again before the browser has fetched it.
    files: dict[str, tuple[str, str, bytes | str]] = {
        "CSV": ("csv", "text/csv", str(table.to_csv(index=False, lineterminator="\n"))),
        "Parquet": ("parquet", "application/vnd.apache.parquet", _parquet(table)),
        "Markdown": ("md", "text/markdown", readable.markdown()),
        "LaTeX": ("tex", "application/x-tex", readable.latex()),
    }
    with st.container(horizontal=True):
        for title, (extension, mime, content) in files.items():
            st.download_button(
                title,
                content,
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
