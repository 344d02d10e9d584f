"""The sliders of page Scaling: target probability C and quantile level beta."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from prmcal.dashboard.controls.address import bound, bound_number
from prmcal.dashboard.frames.cells import MEDIAN
from prmcal.db.queries.exact_curves import ExactCurves

__all__ = ["choose_level", "choose_target_and_level"]


def choose_target_and_level(pool: ExactCurves) -> tuple[float, float]:
    """Let the reader choose C, and beta if there are several levels."""
    left, right = st.columns(2)
    target = left.slider(
        "Target probability C",
        0.01,
        0.999,
        step=0.001,
        format="%.3f",
        **bound_number("C", 0.01, 0.999, 0.99),
        help="IAS draws so many samples that at least one of them is correct with probability C",
    )
    return target, choose_level(pool, right)


def choose_level(pool: ExactCurves, container: DeltaGenerator) -> float:
    """Let the reader choose beta if there are several levels."""
    levels = sorted({level for _, level in pool.rewards})
    if len(levels) < 2:
        return levels[0] if levels else MEDIAN
    level = container.select_slider(
        "Quantile level β",
        levels,
        **bound("beta", levels, text="{:g}".format),
        help="IAS uses this quantile of the success probability. Calibrators without it use their point estimate",
    )
    return float(level)
