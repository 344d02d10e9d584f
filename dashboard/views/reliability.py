"""The page of one cell: its reliability diagram, its signed errors, its numbers, its trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import charts
from dashboard.address import bound
from dashboard.data import ask
from dashboard.text import amount, estimate, number, plain
from db.leaderboard import METRICS
from db.provenance import CellDetail

__all__ = ["show"]


def show(path: Path) -> None:
    """Show how the rewards of one calibration cell compare with success rates."""
    st.title("Reliability")
    cells = ask(path, "leaderboard", table="calibration")
    if cells.empty:
        st.info("This run has no calibration cells.")
        return
    cell_id = st.selectbox("Cell", list(cells["cell_id"]), **bound("cell"))
    detail: CellDetail = ask(path, "cell", cell_id=cell_id)
    if detail.cell["status"] == "failed":
        st.error(f"This cell failed: {plain(detail.cell['reason'] or 'no reason was recorded')}")
    elif detail.cell["status"] == "pending":
        st.info("This cell has not been measured yet.")
    else:
        _diagrams(path, detail, _colour(path, detail.cell["calibrator"]))
        _numbers(detail)
    _provenance(detail)


def _colour(path: Path, calibrator: str) -> str:
    plugins = ask(path, "plugins")
    scale = charts.colour_scale(list(plugins.loc[plugins["kind"] == "calibrator", "name"]))
    colours: dict[str, str] = dict(zip(scale.domain, scale.range, strict=True))
    return colours[calibrator]


def _diagrams(path: Path, detail: CellDetail, colour: str) -> None:
    cell_id = detail.cell["cell_id"]
    bins, errors = ask(path, "reliability", cell_id=cell_id), ask(path, "signed_errors", cell_id=cell_id)
    overall = _overall(detail)
    mean = overall["value"].get("signed_error")
    left, right = st.columns(2)
    with left:
        st.subheader("Reward against success")
        st.altair_chart(
            charts.reliability_diagram(bins, colour),
            width="content",
            alt="Reliability diagram; the numbers stand in the table of bins below",
        )
        st.caption("Vertical lines: 95% intervals. Below the diagonal the PRM overestimates.")
    with right:
        st.subheader("Signed errors")
        st.altair_chart(
            charts.signed_error_histogram(errors, colour, mean),
            width="content",
            alt="Histogram of signed errors",
        )
        st.caption(f"{amount(errors['count'].sum())} prefixes.")
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


def _overall(detail: CellDetail) -> pd.DataFrame:
    return detail.results[detail.results["question_level"].isna()].set_index("metric")


def _numbers(detail: CellDetail) -> None:
    overall = _overall(detail)
    known = [name for name in METRICS if name in overall.index]
    shown = {
        "Metric": [METRICS[name].title for name in known],
        "Value and 95% interval": [
            plain(estimate(*overall.loc[name, ["value", "low", "high"]])) for name in known
        ],
        "Questions": [amount(overall.at[name, "questions"]) for name in known],
        "Prefixes": [amount(overall.at[name, "rows"]) for name in known],
        "What it is": [METRICS[name].description for name in known],
    }
    st.subheader("Numbers")
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)


def _provenance(detail: CellDetail) -> None:
    st.subheader("Where it comes from")
    with st.expander(f"{len(detail.jobs)} jobs"):
        jobs = detail.jobs
        shown = {
            "Kind": [plain(kind) for kind in jobs["kind"]],
            "Key": [plain(key) for key in jobs["job_key"]],
            "Seed": [str(seed) if isinstance(seed, int) else number(None) for seed in jobs["seed"]],
            "Status": list(jobs["status"]),
        }
        st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)
    with st.expander("Versions"):
        st.json(_versions(detail), expanded=True)
    with st.expander(f"{len(detail.samples)} sample trajectories"):
        for sample in detail.samples.to_dict("records"):
            heading = (
                f"Question {sample['question_id']}, trajectory {sample['trajectory']}: {sample['verdict']}"
            )
            st.markdown(f"**{plain(heading)}**")
            st.text(sample["question"] or "")
            st.code(sample["text"], language=None, wrap_lines=True)


def _versions(detail: CellDetail) -> dict[str, Any]:
    plugins = {f"{row.kind} {row.name}": row.identity for row in detail.plugins.itertuples()}
    datasets = {f"{row.name} ({row.split})": row.content_hash for row in detail.datasets.itertuples()}
    return {"plugins": plugins, "content of data sets": datasets}
