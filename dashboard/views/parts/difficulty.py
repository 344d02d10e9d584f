"""Scaling by difficulty, and risk against coverage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from prmcal.dashboard.charts import scaling as scaling_charts
from prmcal.dashboard.charts import style as charts
from prmcal.dashboard.charts.scaling import FIXED
from prmcal.dashboard.controls.places import Names
from prmcal.dashboard.controls.settings import (
    calibrators_of,
    chosen_level,
    here,
    level_of,
    point_of,
    settings,
    show_areas,
)
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import estimate, number, plain
from prmcal.db.queries.scaling import ScalingPool

__all__ = ["show_difficulty", "show_risk"]

_COUNTS = (1, 4, 16, 64)


def show_difficulty(path: Path, names: Names, place: dict[str, str], pool: ScalingPool) -> None:
    """Show accuracy and samples for the questions of each difficulty."""
    target, level = settings(pool)
    known = sorted({int(each) for each in pool.question_levels if not np.isnan(each)})
    if not known:
        st.info("The questions of this data set have no difficulty.")
        return
    used = calibrators_of(names, pool)
    counts = [count for count in _COUNTS if count <= pool.most]
    rows = []
    for each in known:
        fixed = {f"{FIXED} = {count}": pool.fixed([count], question_level=each) for count in counts}
        adaptive = {
            name: pool.adaptive(name, level_of(pool, name, level), [target], question_level=each)
            for name in used
        }
        rows += [
            {"series": name, "question_level": each, "n": curve.questions, **_named(point_of(curve))}
            for name, curve in (fixed | adaptive).items()
        ]
    found = pd.DataFrame(rows)
    shape = charts.shape_scale(names.llm, [place["llm"]]).range[0]
    left, right = st.columns(2)
    for column, what, title in (
        (left, "accuracy", "Accuracy"),
        (right, "samples", "Mean samples per question"),
    ):
        shown = found if what == "accuracy" else found[found["series"].isin(used)]
        colours = charts.colour_scale(names.calibrator, set(shown["series"]))
        with column:
            charts.draw(
                scaling_charts.difficulty_chart(shown, what, title, colours, shape),
                f"{title} by difficulty; the numbers stand in the table below",
            )
    st.caption(
        "Full lines: best-of-n + IAS with the C and β that are set. Dashed: best-of-n with the same n for all "
        "questions. Vertical lines: 95% intervals by bootstrap over the questions of a difficulty."
    )
    shown_rows = {
        "Difficulty": [str(each) for each in found["question_level"]],
        "Strategy": [plain(name) for name in found["series"]],
        "Samples": [number(each, 2) for each in found["samples"]],
        "Accuracy": [
            plain(estimate(*row))
            for row in found[["accuracy", "accuracy_low", "accuracy_high"]].itertuples(index=False)
        ],
        "Questions": [str(each) for each in found["n"]],
    }
    with st.expander("Numbers"):
        st.table(pd.DataFrame(shown_rows), border="horizontal", hide_index=True)


def _named(point: dict[str, float]) -> dict[str, float]:
    names = {"cost": "samples", "cost_low": "samples_low", "cost_high": "samples_high"}
    names |= {"low": "accuracy_low", "high": "accuracy_high"}
    return {names.get(name, name): value for name, value in point.items()}


def show_risk(path: Path, names: Names, place: dict[str, str], pool: ScalingPool) -> None:
    """Show what leaving questions of low reward unanswered gains."""
    level = chosen_level(pool, st.container())
    used = {name: level_of(pool, name, level) for name in calibrators_of(names, pool)}
    risks, areas = (
        _of_levels(here(ask(path, query), place), used) for query in ("risk_points", "curve_areas")
    )
    areas = areas[areas["name"] == "risk_coverage_area"]
    left, right = st.columns(2)
    with left:
        charts.draw(
            scaling_charts.risk_chart(risks, charts.colour_scale(names.calibrator, list(used))),
            "Risk against coverage of every calibrator",
            wide=False,
        )
    with right:
        show_areas(areas)
        st.caption(
            "Only questions whose calibrated reward is at least a threshold are answered, by best-of-N. The area is "
            "the mean risk over all coverages: lower is better. Bands: 95% intervals by bootstrap over questions. All "
            "rest on N samples, and so on no C; the run computed them for every β."
        )


def _of_levels(table: pd.DataFrame, used: dict[str, float]) -> pd.DataFrame:
    places = {name: place for place, name in enumerate(used)}
    kept = table[table["calibrator"].map(used) == table["level"]]
    return kept.sort_values("calibrator", key=lambda names: names.map(places), kind="stable")
