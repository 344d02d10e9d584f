"""The tables of the paper on page Leaderboard, beside the values that this run measured."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.downloads import files_of, show_downloads
from prmcal.dashboard.controls.selection import KINDS
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import MISSING, escaped, estimate, integer, number
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.metrics import Metrics
from prmcal.db.queries.leaderboard import REPORTED_TABLES
from prmcal.db.text.presentation import COORDINATE_TITLES
from prmcal.db.text.readable import Readable

__all__ = ["show_reported"]

_SELECT_WIDTH = 360  # pixels: the names of the tables are long


def show_reported(path: Path) -> None:
    """Show a table of the paper, and the values that this run measured under the same names."""
    st.warning(
        "These numbers are reported by the paper (Park et al., NeurIPS 2025) and were not measured here. They are not "
        "ranked.",
        icon=":material/menu_book:",
    )
    table = st.selectbox(
        "Table of the paper",
        list(REPORTED_TABLES),
        format_func=REPORTED_TABLES.__getitem__,
        width=_SELECT_WIDTH,
        **bound("paper", list(REPORTED_TABLES)),
    )
    reported = ask(path, "beside_measured", table=table)
    readable = _readable(reported, ask(path, "metrics"))
    columns = [[escaped(each) or MISSING for each in column] for column in zip(*readable.rows, strict=True)]
    show_table(dict(zip(readable.head, columns, strict=True)))
    measured = int(reported["measured"].notna().sum())
    st.caption(
        f"The table has {len(reported)} numbers. This run measured {measured} of them, for the same names of data set, "
        "LLM, PRM, calibrator, strategy and metric. The paper gives no intervals."
    )
    show_downloads(f"reported-{table}", files_of(reported, readable))


def _readable(reported: pd.DataFrame, described: Metrics) -> Readable:
    """Return the numbers as text, without the columns that are empty."""
    used = [kind for kind in KINDS if reported[kind].notna().any()]
    rows = [
        [
            *(row[kind] if isinstance(row[kind], str) else "" for kind in used),
            described.title(row["metric"]),
            number(row["value"], row["digits"]),
            "" if pd.isna(row["measured"]) else estimate(row["measured"], row["low"], row["high"]),
            "" if pd.isna(row["questions"]) else integer(row["questions"]),
        ]
        for row in reported.to_dict("records")
    ]
    head = [*(COORDINATE_TITLES[kind] for kind in used), "Metric", "Reported", "Measured here", "Questions"]
    return Readable(head, rows, len(used) + 1)
