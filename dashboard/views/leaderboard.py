"""The page of the two leaderboards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import charts
from dashboard.address import bound, link
from dashboard.data import ask
from dashboard.text import amount, estimate, number, plain
from db.leaderboard import METRICS, SIGNIFICANCE, Metric

__all__ = ["show"]

_TABLES = {"Calibration": "calibration", "Scaling": "scaling"}
_DEFAULTS = {
    "calibration": ["brier", "ece", "signed_error"],
    "scaling": ["accuracy", "budget_ratio", "pass_at_n"],
}
_NAMES = {"llm": "LLM", "prm": "PRM", "calibrator": "Calibrator", "dataset": "Data set"}
_NO_BREAK = "\N{NO-BREAK SPACE}"
_MARKS = {"best": "●", "tied": "○", "worse": "▽"}


def show(path: Path) -> None:
    """Show the leaderboards of a published database."""
    st.title("Leaderboard")
    plugins = ask(path, "plugins")
    chosen = st.segmented_control(
        "Leaderboard",
        list(_TABLES),
        default="Calibration",
        required=True,
        **bound("table"),
        label_visibility="collapsed",
    )
    table = _TABLES[chosen]
    filters = _filters(plugins)
    metrics = _chosen_metrics(table)
    cells = ask(path, "leaderboard", table=table, **filters)
    _summary(cells)
    if cells.empty:
        st.info("No cell matches the filters in the sidebar.")
        return
    done = cells[cells["status"] == "done"]
    if len(done) and metrics:
        _chart(done, metrics, list(plugins.loc[plugins["kind"] == "calibrator", "name"]))
    _table(cells, metrics, table)
    _without_values(cells)
    st.download_button(
        "Download CSV",
        cells.to_csv(index=False),
        file_name=f"{table}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
    )


def _filters(plugins: pd.DataFrame) -> dict[str, list[str] | None]:
    chosen = {}
    for kind, title in _NAMES.items():
        names = list(plugins.loc[plugins["kind"] == kind, "name"])
        selected = st.sidebar.multiselect(title, names, **bound(kind), placeholder="All")
        chosen[kind] = selected or None
    return chosen


def _chosen_metrics(table: str) -> list[Metric]:
    known = {metric.title: metric for metric in METRICS.values() if metric.leaderboard == table}
    chosen = st.sidebar.multiselect(
        "Metrics",
        list(known),
        default=[METRICS[name].title for name in _DEFAULTS[table]],
        **bound(f"{table}_metrics"),
    )
    return [metric for title, metric in known.items() if title in chosen]


def _summary(cells: pd.DataFrame) -> None:
    counts = cells["status"].value_counts()
    parts = [f"{counts.get('done', 0)} of {len(cells)} cells done"]
    parts += [f"{counts[status]} {status}" for status in ("failed", "pending") if status in counts]
    st.caption(" · ".join(parts))


def _chart(cells: pd.DataFrame, metrics: list[Metric], calibrators: list[str]) -> None:
    metric = metrics[0]
    if len(metrics) > 1:
        metric = st.selectbox("Chart", metrics, format_func=lambda metric: metric.title, width=240)
    measured = cells.dropna(subset=[metric.name])
    if measured.empty:
        st.info(f"No cell has a value for {metric.title}.")
        return
    series = measured["calibrator"].fillna(measured["strategy"])
    rows = pd.DataFrame(
        {
            "group": measured["llm"] + " · " + measured["dataset"],
            "cell": [_label(row) for row in measured.itertuples()],
            "series": series,
            "value": measured[metric.name],
            "low": measured[f"{metric.name}_low"],
            "high": measured[f"{metric.name}_high"],
            "n": measured["questions"].astype(int),
        }
    )
    present = set(series)
    scale = charts.colour_scale(calibrators, sorted(present - set(calibrators)))
    st.altair_chart(
        charts.estimates(rows, metric.title, scale, zero=metric.better == "near zero"),
        width="stretch",
        alt=f"{metric.title} of every cell with its 95% interval; the table below holds the same numbers",
    )
    st.caption(metric.description)


def _label(row: Any) -> str:
    names = [name for name in (row.prm, row.strategy, row.calibrator) if isinstance(name, str)]
    scaling = [
        f"{sign}={value:g}"
        for sign, value in (("C", row.target), ("β", row.level))
        if value == value and value
    ]
    return " ".join([*names, *scaling])


def _table(cells: pd.DataFrame, metrics: list[Metric], table: str) -> None:
    several_prms = cells["prm"].nunique() > 1
    kinds = ("dataset", "llm", "prm") if several_prms else ("dataset", "llm")
    shown: dict[str, list[str]] = {_NAMES[kind]: _texts(cells[kind]) for kind in kinds}
    if table == "scaling":
        shown["Strategy"] = _texts(cells["strategy"])
        shown["C"] = [number(value, 2) for value in cells["target"]]
        shown["β"] = [number(value, 2) for value in cells["level"]]
        shown["Calibrator"] = _texts(cells["calibrator"])
    else:
        links = zip(cells["calibrator"], cells["cell_id"], strict=True)
        shown["Calibrator"] = [f"[{plain(name)}]({link('reliability', cell=cell)})" for name, cell in links]
    for metric in metrics:
        shown[metric.title] = [_value(row, metric.name) for row in cells.to_dict("records")]
    shown["Questions"] = [amount(count) for count in cells["questions"]]
    if table == "calibration":
        shown["Prefixes"] = [amount(count) for count in cells["rows"]]
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)
    only_prm = "" if several_prms else f"PRM: {', '.join(_texts(cells['prm'].dropna().drop_duplicates()))}. "
    st.caption(
        f"{only_prm}"
        f"Values with 95% intervals by bootstrap over questions. What competes is one data set, LLM and PRM: "
        f"{_MARKS['best']} the best, {_MARKS['tied']} not distinguishable from the best, {_MARKS['worse']} worse, and "
        f"the difference is real (p < {SIGNIFICANCE} after Holm's correction). Two values that share a letter are not "
        f"distinguishable. Without a mark: not compared."
    )


def _texts(names: pd.Series) -> list[str]:
    return [plain(name) if isinstance(name, str) else number(None) for name in names]


def _value(row: dict[str, Any], metric: str) -> str:
    if row["status"] != "done":
        return f"*{row['status']}*"
    if row[metric] != row[metric]:
        return number(None)
    mark = _MARKS.get(row[f"{metric}_standing"], "")
    letters = row[f"{metric}_letters"]
    marks = f"{mark}{_NO_BREAK}{letters}" if mark and isinstance(letters, str) else mark
    text = plain(estimate(row[metric], row[f"{metric}_low"], row[f"{metric}_high"], mark=marks))
    return f"**{text}**" if mark == _MARKS["best"] else text


def _without_values(cells: pd.DataFrame) -> None:
    failed = cells[cells["status"] == "failed"]
    if failed.empty:
        return
    st.subheader("Failed cells")
    st.table(
        pd.DataFrame({"Cell": _texts(failed["cell_id"]), "Reason": _texts(failed["reason"])}),
        border="horizontal",
        hide_index=True,
    )
