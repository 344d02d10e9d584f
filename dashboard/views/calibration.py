"""Page Calibration: the reliability of a PRM before and after a calibrator, and all calibrators of the same setting."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts import answers
from prmcal.dashboard.charts import drawn as charts
from prmcal.dashboard.charts.curves import rows_of_group
from prmcal.dashboard.charts.trajectory import bin_errors, draw, extremes
from prmcal.dashboard.controls.context import CHOICES, choose
from prmcal.dashboard.controls.widgets import ask, ask_cells, bound
from prmcal.dashboard.formats import CAPTIONS, escaped, estimates
from prmcal.dashboard.views.shared import best_first, show_jobs, show_question, show_status, show_table
from prmcal.db import catalog
from prmcal.db.charts import BLUE, GREY, Series
from prmcal.db.metrics import MAIN_METRICS, Metrics, with_terminal
from prmcal.db.queries.cells import CellDetail
from prmcal.db.text.board import groups_board
from prmcal.db.text.formats import source_lines

_RIVALS = Series(["this one", "others"], [BLUE, GREY], [[1, 0]] * 2, ["circle"] * 2)


def show(path: Path) -> None:
    """Show the page for a published database."""
    answer = show_question("When the score says 0.9, how often is it right?")
    cells = ask(catalog.leaderboard, path, table="calibration")
    cell = choose(path, CHOICES, "calibration")
    if cells.empty or cell is None:
        st.info("This run has no calibration cells.")
        return
    detail: CellDetail = ask(catalog.cell, path, cell_id=cell["cell_id"])
    show_status(path, detail.cell)
    if detail.cell["status"] == "done":
        setting = rows_of_group(cells[cells["status"] == "done"], detail.cell)
        before = setting[setting["calibrator"].isin(ask(catalog.with_role, path, role="baseline")[:1])]
        pair = pd.concat([before, setting[setting["cell_id"] == cell["cell_id"]]]).drop_duplicates("cell_id")
        names = list(pair["calibrator"])
        series = Series(names, [GREY, BLUE][-len(names) :], [[1, 0]] * len(names), ["circle"] * len(names))
        left, right = st.columns(2)
        with left:
            st.header("Before and after")
            bins = ask_cells(catalog.reliability, path, pair)
            answer.markdown(answers.of_calibration(pair, bins))
            draw(charts.reliability_chart(bins, series), bin_errors(bins), wide=False)
            st.caption(CAPTIONS["reliability"])
        with right:
            _rivals(path, setting, cell["calibrator"])
        _metrics(path, pair)
        _groups(path, detail.cell)
    with st.expander("Where the numbers come from"):
        st.caption(escaped(" ".join(source_lines(detail.cell, detail.run))))
        show_jobs(detail.jobs)
        plugins = {f"{row.kind} {row.name}": row.identity for row in detail.plugins.itertuples()}
        datasets = {f"{row.name} ({row.split})": row.content_hash for row in detail.datasets.itertuples()}
        st.json({"plugins": plugins, "content hashes of data sets": datasets}, expanded=False)
    st.caption(f"Cell {escaped(cell['cell_id'])}")


def _rivals(path: Path, setting: pd.DataFrame, calibrator: str) -> None:
    """Show the values of all calibrators at the setting."""
    st.header("All calibrators here")
    descriptions: Metrics = ask(catalog.metrics, path)
    metrics = descriptions.of("calibration")
    metric_names = [metric.name for metric in metrics if metric.better and metric.name in setting]
    metric_names.sort(key=lambda name: name not in MAIN_METRICS["calibration"])
    name = st.selectbox("Metric", metric_names, format_func=descriptions.title, **bound("metric", metric_names))
    metric, ranked = descriptions[name], best_first(setting.dropna(subset=[name]), descriptions[name])
    ends = {name: "value", f"{name}_low": "low", f"{name}_high": "high", "questions": "n", "calibrator": "label"}
    rows = (
        ranked[list(ends)]
        .rename(columns=ends)
        .assign(series=["this one" if name == calibrator else "others" for name in ranked["calibrator"]])
    )
    draw(
        charts.interval_chart(rows, metric.title, _RIVALS, zero=metric.better == "near zero"),
        extremes(metric.title, rows["label"], rows["value"]),
    )
    st.caption(f"{metric.description} {metric.direction.capitalize()}.")


def _metrics(path: Path, pair: pd.DataFrame) -> None:
    """Show each metric once, before and after. A click adds metrics that count the last step too."""
    descriptions: Metrics = ask(catalog.metrics, path)
    names = [name for name in descriptions.ordered(descriptions) if name in pair and pair[name].notna().any()]
    with_last_step = [name for name in names if name.endswith(with_terminal(""))]
    for title, listed in (
        ("All metrics", [name for name in names if name not in with_last_step]),
        ("With the last step", with_last_step),
    ):
        if listed:
            with st.expander(f"{title} ({len(listed)})"):
                values = {
                    f"{row['calibrator']}": [
                        estimates(pd.DataFrame([[row[f"{name}{end}"] for end in ("", "_low", "_high")]]))[0]
                        for name in listed
                    ]
                    for row in pair.to_dict("records")
                }
                show_table(
                    {
                        "Metric": [escaped(descriptions.title(name)) for name in listed],
                        **values,
                        "Meaning": [escaped(descriptions[name].description) for name in listed],
                    }
                )


def _groups(path: Path, cell: Mapping[str, Any]) -> None:
    """Show the values of a cell by a field of the questions."""
    if not (fields := ask(catalog.grouping_fields, path)):
        return
    with st.expander("By group"):
        field = st.selectbox("Field of the questions", fields, **bound("by", fields))
        kinds = ("dataset", "llm", "prm", "calibrator")
        frame = ask(catalog.by_group, path, field, **{kind: [cell[kind]] for kind in kinds})
        board = groups_board(frame, field)
        show_table({column.title: list(map(escaped, column.values)) for column in board.columns})
        st.caption(board.legend)
