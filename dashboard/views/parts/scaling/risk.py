"""Risk against coverage on page Scaling: what a run gains if it leaves questions with low rewards unanswered."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from prmcal.dashboard.charts.cells import rows_of_group
from prmcal.dashboard.charts.curves import LEVEL, levels_of, used_levels
from prmcal.dashboard.charts.findings import draw, risk_areas
from prmcal.dashboard.charts.scaling import risk_chart
from prmcal.dashboard.controls.selection import GridNames
from prmcal.dashboard.controls.sliders import choose_level
from prmcal.dashboard.data import ask
from prmcal.dashboard.views.parts.tables import show_areas
from prmcal.db.charts import series_of
from prmcal.db.queries.curves import ExactCurves

__all__ = ["show_risk"]


def show_risk(
    path: Path, grid: GridNames, group: dict[str, str], pool: ExactCurves, row: DeltaGenerator
) -> None:
    """Show the risk-coverage curves of all calibrators, and the areas under them."""
    levels = levels_of(pool)
    with row:
        level = choose_level(levels)
    risks, areas = (rows_of_group(ask(path, query), group) for query in ("risk_points", "curve_areas"))
    areas = areas[areas["name"] == "risk_coverage_area"]
    if risks.empty:
        st.info("The risk of this data set, LLM and PRM has not been computed yet.")
        return
    used = [used_levels(pool, grid.calibrator, each) for each in levels]
    drawn = pd.concat([_at_levels(risks, each).assign(level=place) for place, each in enumerate(used)])
    left, right = st.columns([3, 2])
    with left:
        draw(
            risk_chart(
                drawn.rename(columns={"calibrator": "series"}),
                series_of(grid.calibrator, list(used[0])),
                {LEVEL: (0, len(levels))},
            ),
            risk_areas(_at_levels(areas, used[0])),
        )
    with right:
        show_areas(_at_levels(areas, used[levels.index(level)]))
        st.caption(
            "Best-of-N answers only the questions whose calibrated reward, before the first step, is at least a "
            "threshold. Each point is one threshold. The area is the mean risk over all coverages. Lower is better. "
            "Bands: 95% intervals over questions. All values are for N samples per question, so they do not "
            "depend on C. The run computed them for every β."
        )


def _at_levels(table: pd.DataFrame, levels: dict[str, float]) -> pd.DataFrame:
    """Return the rows of each calibrator at its level, in the order of `levels`."""
    order = {name: place for place, name in enumerate(levels)}
    kept = table[table["calibrator"].map(levels) == table["level"]]
    return kept.sort_values("calibrator", key=lambda names: names.map(order), kind="stable")
