"""The page of the leaderboards: calibration, scaling, what strategies cost, and what the paper reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts import style as charts
from prmcal.dashboard.controls.address import bound, link
from prmcal.dashboard.controls.downloads import downloads
from prmcal.dashboard.controls.paging import rows_of_page
from prmcal.dashboard.controls.places import TITLES, Names, chosen, names_of
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import amount, estimate, number, plain
from prmcal.dashboard.views.parts.beside import show_costs, show_reported
from prmcal.db.queries.leaderboard import METRICS, SIGNIFICANCE, Metric
from prmcal.db.statistics.standings import last_places, merit
from prmcal.db.text.readable import readable_leaderboard

__all__ = ["show"]

_DEFAULTS = {
    "calibration": ["brier", "ece", "signed_error"],
    "scaling": ["accuracy", "budget_ratio", "pass_at_n"],
}
_NO_BREAK = "\N{NO-BREAK SPACE}"
_MARKS = {"best": "●", "tied": "○", "worse": "▽"}
_LAST = "▼"
_GRID_ORDER = "order of the grid"
_CHARTS_IN_A_ROW = 2


def show(path: Path) -> None:
    """Show the leaderboards of a published database."""
    st.title("Leaderboard")
    names = names_of(path)
    pages: dict[str, Callable[[], None]] = {
        "Calibration": lambda: _competition(path, names, "calibration"),
        "Scaling": lambda: _competition(path, names, "scaling"),
        "Costs": lambda: show_costs(path, names),
        "Paper": lambda: show_reported(path),
    }
    table = st.segmented_control(
        "Leaderboard",
        list(pages),
        default="Calibration",
        required=True,
        **bound("table"),
        label_visibility="collapsed",
    )
    pages[table]()


def _competition(path: Path, names: Names, table: str) -> None:
    filters = chosen(names, *TITLES)
    if table == "scaling":
        filters["strategy"] = (
            st.sidebar.multiselect("Strategy", names.strategy, **bound("strategy"), placeholder="All") or None
        )
    metrics = _chosen_metrics(table)
    cells = ask(path, "leaderboard", table=table, **filters)
    if cells.empty:
        st.info("No cell matches the filters in the sidebar.")
        return
    _summary(cells)
    done = cells[cells["status"] == "done"]
    if len(done) and metrics:
        _charts(done, metrics, names)
    cells = _sorted(cells, metrics)
    _table(cells, metrics, table)
    shown = [metric.name for metric in metrics]
    downloads(table, cells, readable_leaderboard(cells, shown))
    _failures(cells)


def _chosen_metrics(table: str) -> list[Metric]:
    known = {metric.title: metric for metric in METRICS.values() if metric.leaderboard == table}
    selected = st.sidebar.multiselect(
        "Metrics",
        list(known),
        default=[METRICS[name].title for name in _DEFAULTS[table]],
        **bound(f"{table}_metrics"),
    )
    return [metric for title, metric in known.items() if title in selected]


def _summary(cells: pd.DataFrame) -> None:
    counts = cells["status"].value_counts()
    parts = [f"{counts.get('done', 0)} of {len(cells)} cells done"]
    parts += [f"{counts[status]} {status}" for status in ("failed", "pending") if status in counts]
    st.caption(" · ".join(parts))


def _charts(cells: pd.DataFrame, metrics: list[Metric], names: Names) -> None:
    metric = METRICS[
        st.selectbox(
            "Chart",
            [metric.name for metric in metrics],
            format_func=lambda name: METRICS[name].title,
            width=260,
            **bound("chart"),
        )
    ]
    measured = cells.dropna(subset=[metric.name])
    if measured.empty:
        st.info(f"No cell has a value for {metric.title}.")
        return
    series = measured["calibrator"].fillna(measured["strategy"])
    rows = pd.DataFrame(
        {
            "dataset": measured["dataset"],
            "group": measured["llm"]
            + measured["prm"].map(lambda prm: f" · {prm}" if isinstance(prm, str) else ""),
            "llm": measured["llm"],
            "cell": _line_names(measured),
            "series": series,
            "value": measured[metric.name],
            "low": measured[f"{metric.name}_low"],
            "high": measured[f"{metric.name}_high"],
            "n": measured["questions"].astype(int),
        }
    )
    colours = charts.colour_scale(names.calibrator, set(series))
    shapes = charts.shape_scale(names.llm, set(rows["llm"]))
    shown = [name for name in names.dataset if name in set(rows["dataset"])]
    columns = st.columns(min(_CHARTS_IN_A_ROW, len(shown)))
    for place, dataset in enumerate(shown):
        with columns[place % len(columns)]:
            st.markdown(f"**{plain(dataset)}**")
            charts.draw(
                charts.estimates(
                    rows[rows["dataset"] == dataset],
                    metric.title,
                    colours,
                    shapes,
                    zero=metric.better == "near zero",
                ),
                f"{metric.title} of every cell on {dataset} with its 95% interval, as in the table below",
            )
    st.caption(f"{metric.description} Lines: 95% intervals. Colours tell calibrators apart, shapes LLMs.")


def _line_names(cells: pd.DataFrame) -> pd.Series:
    """What tells the cells of one data set, LLM and PRM apart: strategy and calibrator, and settings where needed."""
    named = pd.Series(
        [
            " · ".join(filter(_is_name, pair))
            for pair in zip(cells["strategy"], cells["calibrator"], strict=True)
        ],
        cells.index,
    )
    place = [cells[kind].fillna("") for kind in ("dataset", "llm", "prm")]
    alike = named.groupby([*place, named]).transform("size") > 1
    return named.where(~alike, named + pd.Series([_setting(row) for row in cells.itertuples()], cells.index))


def _is_name(name: Any) -> bool:
    return isinstance(name, str)


def _setting(row: Any) -> str:
    known = [
        f"{sign}={value:g}" for sign, value in (("C", row.target), ("β", row.level)) if not pd.isna(value)
    ]
    return "".join(f" {each}" for each in known)


def _sorted(cells: pd.DataFrame, metrics: list[Metric]) -> pd.DataFrame:
    by = {_GRID_ORDER: None, **{metric.title: metric for metric in metrics}}
    title = st.selectbox("Sort by", list(by), width=260, **bound("sort"))
    metric = by[title]
    if metric is None:
        return cells
    value = cells[metric.name]
    keys = -merit(value, metric.better) if metric.better else value
    order = keys.sort_values(kind="stable", na_position="last").index
    return cells.loc[order].reset_index(drop=True)


def _table(cells: pd.DataFrame, metrics: list[Metric], table: str) -> None:
    same = {kind: cells[kind].dropna().unique() for kind in ("dataset", "llm", "prm")}
    shown = {TITLES[kind]: _texts(cells[kind]) for kind, found in same.items() if len(found) > 1}
    if table == "scaling":
        shown["Strategy"] = _texts(cells["strategy"])
        shown["C"] = [number(value, 2) for value in cells["target"]]
        shown["β"] = [number(value, 2) for value in cells["level"]]
        shown["Calibrator"] = _texts(cells["calibrator"])
    else:
        links = zip(cells["calibrator"], cells["cell_id"], strict=True)
        shown["Calibrator"] = [f"[{plain(name)}]({link('calibration', cell=cell)})" for name, cell in links]
    for metric in metrics:
        last = last_places(cells, metric.name, metric.better)
        shown[metric.title] = [_value(row, metric.name, last) for row in cells.to_dict("records")]
    shown["Questions"] = [amount(count) for count in cells["questions"]]
    if table == "calibration":
        shown["Prefixes"] = [amount(count) for count in cells["rows"]]
    st.table(rows_of_page(pd.DataFrame(shown)), border="horizontal", hide_index=True)
    everywhere = [f"{TITLES[kind]}: {plain(found[0])}. " for kind, found in same.items() if len(found) == 1]
    st.caption(
        f"{''.join(everywhere)}Values with 95% intervals by bootstrap over questions. What competes is one data set, "
        f"LLM and PRM: {_MARKS['best']} the best, {_MARKS['tied']} not distinguishable from the best, "
        f"{_MARKS['worse']} worse, and the difference is real (p < {SIGNIFICANCE} after Holm's correction), {_LAST} "
        "the worst of these. Two values that share a letter are not distinguishable. Without a mark: not compared."
    )


def _texts(names: pd.Series) -> list[str]:
    return [plain(name) if isinstance(name, str) else number(None) for name in names]


def _value(row: dict[str, Any], metric: str, last: set[str]) -> str:
    if row["status"] != "done":
        return f"*{row['status']}*"
    if row[metric] != row[metric]:
        return number(None)
    mark = _LAST if row["cell_id"] in last else _MARKS.get(row[f"{metric}_standing"], "")
    letters = row[f"{metric}_letters"]
    marks = f"{mark}{_NO_BREAK}{letters}" if mark and isinstance(letters, str) else mark
    text = plain(estimate(row[metric], row[f"{metric}_low"], row[f"{metric}_high"], mark=marks))
    return f"**{text}**" if mark == _MARKS["best"] else text


def _failures(cells: pd.DataFrame) -> None:
    failed = cells[cells["status"] == "failed"]
    if failed.empty:
        return
    st.subheader("Failed cells")
    st.table(
        pd.DataFrame({"Cell": _texts(failed["cell_id"]), "Reason": _texts(failed["reason"])}),
        border="horizontal",
        hide_index=True,
    )
