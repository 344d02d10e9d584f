"""The view of page Runs with the differences between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.options import SELECT_WIDTH
from prmcal.dashboard.controls.paging import rows_of_page
from prmcal.dashboard.data import ask_both
from prmcal.dashboard.formats import MISSING, escaped, estimate, estimates, integer, names
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.metrics import Leaderboard
from prmcal.db.queries.two_runs import RunComparison
from prmcal.db.run_folder import published_path
from prmcal.db.statistics.paired import SIGNIFICANCE
from prmcal.db.text.presentation import LEADERBOARDS

__all__ = ["show_differences"]

_MINUS = "\N{MINUS SIGN}"


def show_differences(path: Path, others: Mapping[str, Path]) -> None:
    """Compare the run that the pages show with another one, cell by cell.

    Parameters
    ----------
    path : Path
        The published copy of the run that the pages show.
    others : mapping
        The output folders of the other runs, by their short names.
    """
    left, right = st.columns(2, vertical_alignment="bottom")
    name = left.selectbox("Compared with", list(others), width=SELECT_WIDTH, **bound("other", list(others)))
    tables = list(LEADERBOARDS)
    table: Leaderboard = right.segmented_control(
        "Leaderboard",
        tables,
        format_func=lambda table: LEADERBOARDS[table].title,
        required=True,
        label_visibility="collapsed",
        **bound("leaderboard", tables),
    )
    found: RunComparison = ask_both(path, published_path(others[name]), "compare_runs", table=table)
    _summary(found, name)
    if len(found.both):
        _both(found, name)
    for title, cells in (("Only in this run", found.only_a), (f"Only in {name}", found.only_b)):
        if len(cells):
            with st.expander(f"{escaped(title)}: {integer(len(cells))} cells"):
                show_table({"Cell": names(cells["cell_id"])})


def _summary(found: RunComparison, name: str) -> None:
    both = found.both
    paired, unpaired = both[both["p"].notna()], both[both["p"].isna()]
    parts = [f"{integer(len(both))} finished cells are in both runs."]
    if len(paired):
        real = int((paired["p"] < SIGNIFICANCE).sum())
        parts.append(
            f"{integer(len(paired))} were measured on the same questions: {integer(real)} of them differ significantly."
        )
    if len(unpaired):
        apart = int((~unpaired["overlap"]).sum())
        parts.append(
            f"Of the other {integer(len(unpaired))}, {integer(apart)} have intervals that do not overlap."
        )
    parts.append(
        f"{integer(len(found.only_a))} are only in this run, {integer(len(found.only_b))} only in {escaped(name)}."
    )
    st.markdown(" ".join(parts))


def _both(found: RunComparison, name: str) -> None:
    # The largest differences first. Cells that cannot be paired come last.
    size = found.both["difference"].abs()
    shown = rows_of_page(found.both.loc[size.sort_values(ascending=False, kind="stable").index])
    title = found.described.title
    show_table(
        {
            "Cell": names(shown["cell_id"]),
            f"{title}: A, this run": estimates(shown[["value_a", "low_a", "high_a"]]),
            f"B, {escaped(name)}": estimates(shown[["value_b", "low_b", "high_b"]]),
            f"A {_MINUS} B": [
                escaped(estimate(row["difference"], row["low"], row["high"]))
                for row in shown.to_dict("records")
            ],
            "p": [_p_value(value) for value in shown["p"]],
            "Intervals": ["overlap" if each else "apart" for each in shown["overlap"]],
            "Different": [_verdict(row) for row in shown.to_dict("records")],
        }
    )
    st.caption(
        "Values with 95% intervals over questions, the largest difference first. If both runs measured a cell on the "
        "same questions, its difference is paired; p is adjusted by Holm's correction for all paired cells, and the "
        f"cell is different if p < {SIGNIFICANCE}. Otherwise, it is different if the intervals of A and B do not "
        "overlap."
    )


def _verdict(row: Mapping[str, float]) -> str:
    different = not row["overlap"] if pd.isna(row["p"]) else row["p"] < SIGNIFICANCE
    return "yes" if different else "no"


def _p_value(value: float) -> str:
    if pd.isna(value):
        return MISSING
    return escaped("< 0.001") if value < 0.001 else f"{value:.2g}"
