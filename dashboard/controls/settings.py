"""What a reader may set on the pages of scaling, and what is computed for it."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from prmcal.dashboard.charts.scaling import FIXED
from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.places import Names
from prmcal.dashboard.text.plain import estimate, number, plain
from prmcal.db.queries.scaling import ScalingPool
from prmcal.db.statistics.spending import Curve

__all__ = ["calibrators_of", "chosen_level", "here", "level_of", "point_of", "settings", "show_areas"]

_POINT_ESTIMATE = 0.5


def settings(pool: ScalingPool) -> tuple[float, float]:
    """Let a reader set C, and beta where there is a choice."""
    left, right = st.columns(2)
    target = left.slider(
        "Target probability C",
        0.01,
        0.999,
        0.99,
        0.001,
        format="%.3f",
        **bound("C"),
        help="How likely a right answer should be among the samples of a question",
    )
    return target, chosen_level(pool, right)


def chosen_level(pool: ScalingPool, where: DeltaGenerator) -> float:
    """Let a reader set beta where there is a choice."""
    levels = sorted({level for _, level in pool.rewards})
    if len(levels) < 2:
        return levels[0] if levels else _POINT_ESTIMATE
    level = where.select_slider(
        "Quantile level β",
        levels,
        levels[0],
        **bound("beta"),
        help="Which quantile of the success probability decides; others keep their point estimate",
    )
    return float(level)


def calibrators_of(names: Names, pool: ScalingPool) -> list[str]:
    """The calibrators that have rewards of a pool, in the order of the grid."""
    present = {name for name, _ in pool.rewards}
    return [name for name in names.calibrator if name in present]


def level_of(pool: ScalingPool, calibrator: str, level: float) -> float:
    """The level that is set, or the point estimate of a calibrator that has no such."""
    own = [each for name, each in pool.rewards if name == calibrator]
    return level if level in own else _POINT_ESTIMATE if _POINT_ESTIMATE in own else own[0]


def point_of(curve: Curve) -> dict[str, float]:
    """A curve of one point: cost and accuracy, each with its interval."""
    (cost,), (accuracy,) = curve.intervals()
    return {
        "cost": float(curve.cost[0]),
        "cost_low": cost[0],
        "cost_high": cost[1],
        "accuracy": float(curve.accuracy[0]),
        "low": accuracy[0],
        "high": accuracy[1],
    }


def here(table: pd.DataFrame, place: dict[str, str]) -> pd.DataFrame:
    """The rows of one data set, LLM and PRM."""
    for kind, name in place.items():
        table = table[table[kind] == name]
    return table


def show_areas(areas: pd.DataFrame) -> None:
    """Show areas under curves with their intervals, in the order of the rows; the curve without a calibrator too."""
    shown = {
        "Curve": [plain(name) if isinstance(name, str) else FIXED for name in areas["calibrator"]],
        "β": [number(level, 2) for level in areas["level"]],
        "Area": [plain(estimate(*row)) for row in areas[["value", "low", "high"]].itertuples(index=False)],
    }
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)
