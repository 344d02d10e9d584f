"""Calibrators side by side, and one calibrator with every LLM on every data set."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import pandas as pd
import streamlit as st

from prmcal.dashboard.charts import calibration as calibration_charts
from prmcal.dashboard.charts import style as charts
from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.places import Names, chosen_place
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import estimate, number, plain
from prmcal.db.queries.leaderboard import METRICS, SIGNIFICANCE

__all__ = ["show_all", "show_rivals"]

_COVERAGE = "coverage_"


def show_rivals(path: Path, cells: pd.DataFrame, names: Names) -> None:
    """Show all calibrators of one data set, LLM and PRM."""
    here = [cells[kind] == name for kind, name in chosen_place(names).items()]
    done = cells[(cells["status"] == "done") & here[0] & here[1] & here[2]]
    if done.empty:
        st.info("No calibrator of this data set, LLM and PRM has been measured.")
        return
    colours = charts.colour_scale(names.calibrator, set(done["calibrator"]))
    shapes = charts.shape_scale(names.llm, set(done["llm"]))
    left, right = st.columns(2)
    with left:
        st.subheader("Reward against success")
        bins = pd.concat(
            [
                ask(path, "reliability", cell_id=row.cell_id).assign(calibrator=row.calibrator)
                for row in done.itertuples()
            ]
        )
        charts.draw(
            calibration_charts.reliability_curves(bins, colours, shapes),
            "Reliability curves of all calibrators; their bins are on the page of each cell",
            wide=False,
        )
        st.caption("Vertical lines: 95% intervals. Below the diagonal rewards overestimate.")
    with right:
        st.subheader("Coverage of the quantiles")
        _coverage(done, colours, shapes)
    _compared(done, colours, shapes)


def _coverage(done: pd.DataFrame, colours: alt.Scale, shapes: alt.Scale) -> None:
    metrics = [name for name in METRICS if name.startswith(_COVERAGE) and name in done]
    rows = pd.concat(
        [
            pd.DataFrame(
                {
                    "calibrator": done["calibrator"],
                    "level": (level := float(name.removeprefix(_COVERAGE))),
                    "right": 1 - level,
                    "value": done[name],
                    "low": done[f"{name}_low"],
                    "high": done[f"{name}_high"],
                    "n": done["questions"],
                }
            )
            for name in metrics
        ]
        or [pd.DataFrame({"value": []})]
    ).dropna(subset=["value"])
    if rows.empty:
        st.info("No coverage was measured.")
        return
    charts.draw(
        calibration_charts.coverage_chart(rows, colours, shapes),
        "Measured against right coverage of every calibrator's quantiles",
        wide=False,
    )
    st.caption(
        "How often the success probability is at least what was predicted. A level β is right on the dashed line; a "
        "point estimate has one value for all levels."
    )


def _compared(done: pd.DataFrame, colours: alt.Scale, shapes: alt.Scale) -> None:
    st.subheader("Calibrators compared")
    known = [name for name in METRICS if METRICS[name].leaderboard == "calibration" and METRICS[name].better]
    metric = METRICS[
        st.selectbox(
            "Metric",
            known,
            format_func=lambda name: METRICS[name].title,
            width=260,
            **bound("metric"),
        )
    ]
    measured = done.dropna(subset=[metric.name])
    rows = pd.DataFrame(
        {
            "group": "",
            "llm": measured["llm"],
            "cell": measured["calibrator"],
            "series": measured["calibrator"],
            "value": measured[metric.name],
            "low": measured[f"{metric.name}_low"],
            "high": measured[f"{metric.name}_high"],
            "n": measured["questions"],
        }
    )
    charts.draw(
        charts.estimates(rows, metric.title, colours, shapes, zero=metric.better == "near zero"),
        f"{metric.title} of every calibrator with its 95% interval",
    )
    shown = {
        "Calibrator": [plain(name) for name in measured["calibrator"]],
        metric.title: [
            plain(estimate(*row)) for row in rows[["value", "low", "high"]].itertuples(index=False)
        ],
        "Not distinguishable": [
            letters if isinstance(letters, str) else number(None)
            for letters in measured[f"{metric.name}_letters"]
        ],
    }
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)
    st.caption(
        f"{metric.description} Calibrators that share a letter are not distinguishable (paired, p at least "
        f"{SIGNIFICANCE} after Holm's correction)."
    )


def show_all(path: Path, cells: pd.DataFrame, names: Names) -> None:
    """Show one PRM and calibrator with every LLM on every data set."""
    left, right = st.columns(2)
    prm = left.selectbox("PRM", names.prm, **bound("prm"))
    calibrator = right.selectbox("Calibrator", names.calibrator, **bound("calibrator"))
    chosen = cells[(cells["prm"] == prm) & (cells["calibrator"] == calibrator)]
    colours = charts.colour_scale(names.calibrator, [calibrator])
    for dataset in names.dataset:
        st.subheader(plain(dataset))
        with st.container(horizontal=True):
            for row in chosen[chosen["dataset"] == dataset].itertuples():
                if row.status != "done":
                    st.info(f"{plain(row.llm)}: {row.status}")
                    continue
                charts.draw(
                    calibration_charts.small_reliability(
                        ask(path, "reliability", cell_id=row.cell_id),
                        colours,
                        charts.shape_scale(names.llm, [row.llm]),
                        row.llm,
                    ),
                    f"Reliability diagram of {row.llm} on {dataset}",
                    wide=False,
                )
    st.caption(
        "Vertical lines: 95% intervals. Below the diagonal rewards overestimate. Bars: prefixes in each bin."
    )
