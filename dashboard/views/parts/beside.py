"""What stands beside the leaderboards and is never ranked: costs, and what the paper reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.downloads import downloads
from prmcal.dashboard.controls.paging import rows_of_page
from prmcal.dashboard.controls.places import TITLES, Names, chosen
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import amount, estimate, number, plain
from prmcal.db.queries.leaderboard import METRICS
from prmcal.db.queries.reported import REPORTED_TABLES
from prmcal.db.text.readable import Readable, readable_costs

__all__ = ["show_costs", "show_reported"]

_COSTS = {
    "samples": "LLM calls",
    "generated_tokens": "Generated tokens",
    "prefill_tokens": "Prefill tokens",
    "prm_tokens": "PRM tokens",
    "seconds": "Seconds",
}


def show_costs(path: Path, names: Names) -> None:
    """Show what every strategy cost, a question and in total."""
    filters = chosen(names, *TITLES)
    in_total = st.segmented_control(
        "Costs", ["per question", "in total"], default="per question", required=True, **bound("costs")
    )
    cells = ask(path, "costs")
    for kind, kept in filters.items():
        if kept is not None:
            cells = cells[cells[kind].isin(kept) | cells[kind].isna()]
    if cells.empty:
        st.info("No cell matches the filters in the sidebar.")
        return
    shown = {TITLES[kind]: _texts(cells[kind]) for kind in ("dataset", "llm", "prm")}
    shown["Strategy"] = _texts(cells["strategy"])
    shown["Calibrator"] = _texts(cells["calibrator"])
    shown["C"], shown["β"] = ([number(value, 2) for value in cells[name]] for name in ("target", "level"))
    shown["Accuracy"] = [number(value) for value in cells["accuracy"]]
    ending = "_total" if in_total == "in total" else ""
    for name, title in _COSTS.items():
        shown[title] = [_cost(value, in_total == "in total") for value in cells[f"{name}{ending}"]]
    st.table(rows_of_page(pd.DataFrame(shown)), border="horizontal", hide_index=True)
    st.caption(
        "Seconds are those of one worker, as the jobs that generated and scored went. A dash: not known. Nothing "
        "competes in costs: a small one is no merit by itself."
    )
    downloads("costs", cells, readable_costs(cells))


def show_reported(path: Path) -> None:
    """Show the paper's tables, with what this run measured under the same names beside them."""
    st.warning(
        "Reported by the paper (Park et al., NeurIPS 2025), not measured here: these numbers are in no ranking.",
        icon=":material/menu_book:",
    )
    table = st.selectbox(
        "Table of the paper",
        list(REPORTED_TABLES),
        format_func=REPORTED_TABLES.__getitem__,
        width=360,
        **bound("paper"),
    )
    numbers = ask(path, "beside_measured", table=table)
    readable = _reported(numbers)
    columns = [
        [plain(each) or number(None) for each in column] for column in zip(*readable.rows, strict=True)
    ]
    st.table(
        pd.DataFrame(dict(zip(readable.head, columns, strict=True))), border="horizontal", hide_index=True
    )
    met = int(numbers["measured"].notna().sum())
    st.caption(
        f"{len(numbers)} numbers; this run measured {met} of them under the same names of data set, LLM, PRM, "
        "calibrator, strategy and metric. The paper gives no intervals."
    )
    downloads(f"reported-{table}", numbers, readable)


def _reported(numbers: pd.DataFrame) -> Readable:
    """The numbers as they are shown and downloaded, without columns that are empty."""
    kinds = {**TITLES, "strategy": "Strategy"}
    used = [kind for kind in kinds if numbers[kind].notna().any()]
    rows = [
        [
            *(row[kind] if isinstance(row[kind], str) else "" for kind in used),
            METRICS[row["metric"]].title,
            number(row["value"], row["digits"]),
            "" if pd.isna(row["measured"]) else estimate(row["measured"], row["low"], row["high"]),
            "" if pd.isna(row["questions"]) else amount(row["questions"]),
        ]
        for row in numbers.to_dict("records")
    ]
    head = [*(kinds[kind] for kind in used), "Metric", "Reported", "Measured here", "Questions"]
    return Readable(head, rows, len(used) + 1)


def _texts(names: Any) -> list[str]:
    return [plain(name) if isinstance(name, str) else number(None) for name in names]


def _cost(value: float, whole: bool) -> str:
    if pd.isna(value):
        return number(None)
    digits = 0 if whole or value >= 100 else 2
    return f"{value:,.{digits}f}"
