"""The page of calibration: one cell, its rivals, and the same for every LLM and data set."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts import calibration as calibration_charts
from prmcal.dashboard.charts import style as charts
from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.places import Names, names_of
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import amount, estimate, in_lines, number, plain
from prmcal.dashboard.views.parts.calibrators import show_all, show_rivals
from prmcal.dashboard.views.parts.provenance import show_provenance
from prmcal.db.queries.leaderboard import METRICS
from prmcal.db.queries.provenance import CellDetail

__all__ = ["show"]

_WORDS = 7
_ONE, _RIVALS, _ALL = "One cell", "Calibrators", "All LLMs and data sets"


def show(path: Path) -> None:
    """Show how rewards compare with success rates."""
    st.title("Calibration")
    cells = ask(path, "leaderboard", table="calibration")
    if cells.empty:
        st.info("This run has no calibration cells.")
        return
    views = {_ONE: _show_cell, _RIVALS: show_rivals, _ALL: show_all}
    view = st.segmented_control(
        "View", list(views), default=_ONE, required=True, **bound("view"), label_visibility="collapsed"
    )
    views[view](path, cells, names_of(path))


def _show_cell(path: Path, cells: pd.DataFrame, names: Names) -> None:
    cell_id = st.selectbox("Cell", list(cells["cell_id"]), **bound("cell"))
    detail: CellDetail = ask(path, "cell", cell_id=cell_id)
    if detail.cell["status"] == "failed":
        st.error(f"This cell failed: {plain(detail.cell['reason'] or 'no reason was recorded')}")
    elif detail.cell["status"] == "pending":
        st.info("This cell has not been measured yet.")
    else:
        _diagrams(path, cells, detail, names)
        _numbers(detail)
    show_provenance(detail)


def _diagrams(path: Path, cells: pd.DataFrame, detail: CellDetail, names: Names) -> None:
    cell = detail.cell
    bins = ask(path, "reliability", cell_id=cell["cell_id"])
    left, right = st.columns(2)
    with left:
        st.subheader("Reward against success")
        charts.draw(
            calibration_charts.reliability_diagram(
                bins,
                charts.colour_scale(names.calibrator, [cell["calibrator"]]),
                charts.shape_scale(names.llm, [cell["llm"]]),
            ),
            "Reliability diagram; the numbers stand in the table of bins below",
            wide=False,
        )
        st.caption("Vertical lines: 95% intervals. Below the diagonal the PRM overestimates.")
    with right:
        st.subheader("Signed errors")
        _signed_errors(path, cells, cell["cell_id"], names)
    with st.expander("Bins"):
        shown = {
            "Reward": [f"{number(row.lower, 2)} to {number(row.upper, 2)}" for row in bins.itertuples()],
            "Prefixes": [amount(count) for count in bins["count"]],
            "Mean reward": [number(value) for value in bins["mean_reward"]],
            "Success rate": [
                plain(estimate(row.mean_success, row.low, row.high)) if row.count_ else number(None)
                for row in bins.rename(columns={"count": "count_"}).itertuples()
            ],
        }
        st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)


def _signed_errors(path: Path, cells: pd.DataFrame, cell_id: str, names: Names) -> None:
    """Before and after: the cell's own errors, and those of its PRM as it is."""
    own = cells.set_index("cell_id").loc[cell_id]
    place = cells[(cells[["dataset", "llm", "prm"]] == own[["dataset", "llm", "prm"]]).all(axis=1)]
    place = place[place["status"] == "done"]
    before = place[place["calibrator"] == _uncalibrated(path)]
    shown = pd.concat([before, place[place["cell_id"] == cell_id]]).drop_duplicates("cell_id")
    bins = pd.concat(
        [
            ask(path, "signed_errors", cell_id=row.cell_id).assign(calibrator=row.calibrator)
            for row in shown.itertuples()
        ]
    )
    means = shown.rename(columns={"signed_error": "value"})[["calibrator", "value"]]
    colours = charts.colour_scale(names.calibrator, set(shown["calibrator"]))
    charts.draw(
        calibration_charts.signed_errors(bins, means, colours),
        "Histograms of signed errors, before and after calibration",
        wide=False,
    )
    after = bins[bins["calibrator"] == own["calibrator"]]["count"].sum()
    st.caption(
        f"{amount(after)} prefixes. Full lines: the means, "
        + ", ".join(f"{plain(row.calibrator)} {number(row.value)}" for row in means.itertuples())
        + ". Dashed: no error."
    )


def _uncalibrated(path: Path) -> str | None:
    """The grid's name of the calibrator that leaves rewards as they are."""
    plugins = ask(path, "plugins")
    found = plugins[(plugins["kind"] == "calibrator") & (plugins["plugin"] == "uncalibrated")]["name"]
    return None if found.empty else str(found.iloc[0])


def _numbers(detail: CellDetail) -> None:
    results = detail.results
    overall = results[results["question_level"].isna()].set_index("metric")
    known = [name for name in METRICS if name in overall.index]
    shown = {
        "Metric": [METRICS[name].title for name in known],
        "Value (95% interval)": [
            plain(estimate(*overall.loc[name, ["value", "low", "high"]])) for name in known
        ],
        "Questions": [amount(overall.at[name, "questions"]) for name in known],
        "Prefixes": [amount(overall.at[name, "rows"]) for name in known],
        "What it is": [in_lines(METRICS[name].description, _WORDS) for name in known],
    }
    st.subheader("Numbers")
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)
