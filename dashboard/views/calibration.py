"""Page Calibration: the reliability of a PRM before and after a calibrator, and all calibrators of the same setting."""

from pathlib import Path

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
from prmcal.db.text.formats import source_lines

_RIVALS = Series(["this one", "others"], [BLUE, GREY], [[1, 0]] * 2, ["circle"] * 2)


def show(path: Path) -> None:
    """Show the page for a published database."""
    answer = show_question("When the score says 0.9, how often is it right?")
    cells = ask(catalog.leaderboard, path, table="calibration")
    chosen = choose(path, CHOICES, "calibration")
    if cells.empty or chosen is None:
        st.info("This run has no calibration cells.")
        return
    detail: CellDetail = ask(catalog.cell, path, cell_id=chosen["cell_id"])
    show_status(path, detail.cell)
    if detail.cell["status"] == "done":
        setting = rows_of_group(cells[cells["status"] == "done"], detail.cell)
        before = setting[setting["calibrator"].isin(ask(catalog.with_role, path, role="baseline")[:1])]
        both = pd.concat([before, setting[setting["cell_id"] == chosen["cell_id"]]]).drop_duplicates("cell_id")
        names = list(both["calibrator"])
        series = Series(names, [GREY, BLUE][-len(names) :], [[1, 0]] * len(names), ["circle"] * len(names))
        left, right = st.columns(2)
        with left:
            st.header("Before and after")
            bins = ask_cells(catalog.reliability, path, both)
            answer.markdown(answers.of_calibration(both, bins))
            draw(charts.reliability_chart(bins, series), bin_errors(bins), wide=False)
            st.caption(CAPTIONS["reliability"])
        with right:
            _rivals(path, setting, chosen["calibrator"])
        _metrics(path, both)
    with st.expander("Where the numbers come from"):
        _provenance(detail)
    st.caption(f"Cell {escaped(chosen['cell_id'])}")


def _rivals(path: Path, setting: pd.DataFrame, chosen: str) -> None:
    """Show the values of all calibrators at the setting."""
    st.header("All calibrators here")
    described: Metrics = ask(catalog.metrics, path)
    judged = [metric.name for metric in described.of("calibration") if metric.better and metric.name in setting]
    judged.sort(key=lambda name: name not in MAIN_METRICS["calibration"])
    name = st.selectbox("Metric", judged, format_func=described.title, **bound("metric", judged))
    metric, measured = described[name], best_first(setting.dropna(subset=[name]), described[name])
    ends = {
        name: "value",
        f"{name}_low": "low",
        f"{name}_high": "high",
        "questions": "n",
        "calibrator": "label",
    }
    rows = (
        measured[list(ends)]
        .rename(columns=ends)
        .assign(series=["this one" if name == chosen else "others" for name in measured["calibrator"]])
    )
    draw(
        charts.interval_chart(rows, metric.title, _RIVALS, zero=metric.better == "near zero"),
        extremes(metric.title, rows["label"], rows["value"]),
    )
    st.caption(f"{metric.description} {metric.direction.capitalize()}.")


def _metrics(path: Path, both: pd.DataFrame) -> None:
    """Show each metric once, before and after, and on a click those that count the last step too."""
    described: Metrics = ask(catalog.metrics, path)
    names = [name for name in described.ordered(described) if name in both and both[name].notna().any()]
    last = [name for name in names if name.endswith(with_terminal(""))]
    for title, part in (
        ("All metrics", [name for name in names if name not in last]),
        ("With the last step", last),
    ):
        if part:
            with st.expander(f"{title} ({len(part)})"):
                values = {
                    f"{row['calibrator']}": [
                        estimates(pd.DataFrame([[row[f"{name}{end}"] for end in ("", "_low", "_high")]]))[0]
                        for name in part
                    ]
                    for row in both.to_dict("records")
                }
                show_table(
                    {
                        "Metric": [escaped(described.title(name)) for name in part],
                        **values,
                        "Meaning": [escaped(described[name].description) for name in part],
                    }
                )


def _provenance(detail: CellDetail) -> None:
    """Show the jobs and the versions from which a cell was computed."""
    st.caption(escaped(" ".join(source_lines(detail.cell, detail.run))))
    show_jobs(detail.jobs)
    plugins = {f"{row.kind} {row.name}": row.identity for row in detail.plugins.itertuples()}
    datasets = {f"{row.name} ({row.split})": row.content_hash for row in detail.datasets.itertuples()}
    st.json({"plugins": plugins, "content hashes of data sets": datasets}, expanded=False)
