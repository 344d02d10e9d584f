"""A table to take along: as CSV and Parquet with every number, as Markdown and LaTeX for reading."""

from __future__ import annotations

import io

import pandas as pd
import streamlit as st

from prmcal.db.text.readable import Readable

__all__ = ["downloads"]


def downloads(name: str, table: pd.DataFrame, readable: Readable) -> None:
    """Show the four buttons.

    Parameters
    ----------
    name : str
        Of the files, without an ending.
    table : DataFrame
        What CSV and Parquet hold.
    readable : Readable
        What Markdown and LaTeX hold.
    """
    # Made now and not when a button is pressed: what is made then is gone if the page looks again before it is fetched.
    files: dict[str, tuple[str, str, bytes | str]] = {
        "CSV": ("csv", "text/csv", str(table.to_csv(index=False, lineterminator="\n"))),
        "Parquet": ("parquet", "application/vnd.apache.parquet", _parquet(table)),
        "Markdown": ("md", "text/markdown", readable.markdown()),
        "LaTeX": ("tex", "application/x-tex", readable.latex()),
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
