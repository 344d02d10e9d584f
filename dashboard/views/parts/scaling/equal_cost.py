"""What IAS buys at equal cost on page Scaling: accuracy minus that of a fixed n with the same mean samples."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from prmcal.dashboard.charts.curves import LEVEL, TARGET, TARGETS, equal_cost_points, levels_of, selected
from prmcal.dashboard.charts.findings import draw, equal_cost, gain_of, percent, points
from prmcal.dashboard.charts.scaling import equal_cost_chart
from prmcal.dashboard.controls.context import context_of
from prmcal.dashboard.controls.selection import GridNames, grid_names
from prmcal.dashboard.controls.sliders import DEFAULT_TARGET, choose_level, choose_target
from prmcal.dashboard.data import ask, compute
from prmcal.dashboard.formats import escaped, names, numbers, settings
from prmcal.dashboard.views.parts.tables import show_table
from prmcal.db.charts import series_of
from prmcal.db.queries.curves import ExactCurves
from prmcal.db.statistics.budgets import verdict

__all__ = ["choose_selection", "show_equal_cost", "show_gain", "signals_of"]


def choose_selection(pool: ExactCurves, row: DeltaGenerator) -> tuple[float, float]:
    """Let the reader choose C and beta in a row of controls."""
    with row:
        left, right = st.columns([3, 2])
    with left:
        target = choose_target()
    with right:
        return target, choose_level(levels_of(pool))


def signals_of(pool: ExactCurves) -> dict[str, tuple[int, int]]:
    """Return the signals of C and beta for charts that follow the sliders."""
    return {TARGET: (TARGETS.index(DEFAULT_TARGET), len(TARGETS)), LEVEL: (0, len(levels_of(pool)))}


def show_equal_cost(
    path: Path, grid: GridNames, group: dict[str, str], pool: ExactCurves, row: DeltaGenerator
) -> None:
    """Show the accuracy of best-of-n + IAS minus that of the fixed n at equal cost, with its interval."""
    target, level = choose_selection(pool, row)
    rows = compute(path, _rows, group=group)
    if rows.empty:
        st.info("No calibrator has rewards for this data set, LLM and PRM.")
        return
    show_gain(path, group, pool, target, level)
    draw(
        equal_cost_chart(rows, series_of(grid.calibrator, set(rows["series"])), signals_of(pool)),
        equal_cost(selected(rows, pool, DEFAULT_TARGET, levels_of(pool)[0]), pool.most),
    )
    st.caption(
        "Lines: accuracy of best-of-n + IAS for all C, minus that of best-of-n with one fixed n that costs as many "
        "samples on average, with 95% bands. Points: the selected C. The difference is paired over questions. If the "
        "mean is not whole, a part of the questions gets one sample more. The mean is itself an estimate, which the "
        "interval takes into account. Gain: the interval is above 0. Loss: it is below 0."
    )
    chosen = selected(rows, pool, target, level)
    found = [verdict(low, high) for low, high in zip(chosen["low"], chosen["high"], strict=True)]
    show_table(
        {
            "Calibrator": names(chosen["series"]),
            "β": settings(chosen["beta"]),
            "Samples": numbers(chosen["samples"], 2),
            "Accuracy": [percent(each) for each in chosen["accuracy"]],
            "Fixed n of equal cost": [percent(each) for each in chosen["fixed"]],
            "Difference": [
                escaped(points(*each))
                for each in chosen[["difference", "low", "high"]].itertuples(index=False)
            ],
            "Verdict": [f"**{each}**" if each == "gain" else each for each in found],
        }
    )


def show_gain(path: Path, group: dict[str, str], pool: ExactCurves, target: float, level: float) -> None:
    """Say in a sentence what IAS buys at equal cost.

    It is about the calibrator in the context. Without one, it is about the calibrator that has the highest accuracy
    with the values of C and beta that the page shows first.
    """
    rows = compute(path, _rows, group=group)
    if rows.empty:
        return
    wanted = context_of(path).choice.get("calibrator")
    if wanted not in set(rows["series"]):
        first = selected(rows, pool, DEFAULT_TARGET, levels_of(pool)[0])
        wanted = first.loc[first["accuracy"].idxmax(), "series"]
    chosen = selected(rows, pool, target, level)
    (row,) = chosen[chosen["series"] == wanted].itertuples()
    st.markdown(escaped(gain_of(row, pool.most)))


def _rows(path: Path, group: dict[str, str]) -> pd.DataFrame:
    pool: ExactCurves = ask(path, "exact_curves", **group)
    return equal_cost_points(pool, grid_names(path).calibrator)
