"""Accuracy against cost on page Scaling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from prmcal.dashboard.charts.scaling import frontier_chart
from prmcal.dashboard.charts.style import colour_scale, draw, shape_scale
from prmcal.dashboard.controls.options import choose_option
from prmcal.dashboard.controls.selection import GridNames
from prmcal.dashboard.controls.sliders import choose_target_and_level
from prmcal.dashboard.data import ask
from prmcal.dashboard.frames.cells import rows_of_group, settings_of
from prmcal.dashboard.frames.scaling import (
    FIXED,
    curves_of,
    levels_of,
    selected_points,
    with_frontier,
)
from prmcal.dashboard.text.formats import escaped, estimates, with_line_breaks
from prmcal.dashboard.views.parts.tables import show_areas, show_table
from prmcal.db.queries.exact_curves import ExactCurves

__all__ = ["show_budget"]

_WORDS = 4
_COSTS = {"samples": "samples", "generated tokens": "generated_tokens"}
_ADAPTIVE = "best-of-n + IAS"


def show_budget(path: Path, grid: GridNames, group: dict[str, str], pool: ExactCurves) -> None:
    """Show what accuracy costs: curves, the points of all strategies, and the Pareto frontier."""
    target, level = choose_target_and_level(pool)
    cost = choose_option("Cost", list(_COSTS), "cost")
    tokens = cost != "samples"
    levels = levels_of(pool, grid.calibrator, level)
    adaptive = selected_points(pool, levels, target, tokens=tokens)
    adaptive = adaptive.assign(name=f"{_ADAPTIVE}, " + adaptive["series"], label="", competes=True)
    measured = _measured_strategies(path, group, _COSTS[cost])
    points, curves = with_frontier(
        pd.concat([part for part in (measured, adaptive) if len(part)], ignore_index=True),
        curves_of(pool, levels, tokens=tokens),
    )
    (shape,) = shape_scale(grid.llm, [group["llm"]]).range
    draw(
        frontier_chart(
            curves,
            points,
            f"Mean {cost} per question",
            colour_scale(grid.calibrator, [*levels, FIXED]),
            shape,
        ),
        f"Accuracy against {cost} per question; the table below has the numbers of the points",
    )
    st.caption(
        "Lines: best-of-n + IAS for all C, and best-of-n with a fixed n (dashed), with 95% bands over "
        "questions. Points on the lines: the selected C. Other points: strategies as the run measured them, with the C "
        "and β in their names. Wide grey line: the Pareto frontier. A strategy is on it if no other strategy and no "
        "fixed n has a higher accuracy at no higher cost, or a lower cost at no lower accuracy. Strategies that need "
        "the ground truth are not on it. One sample of beam search is a single step, so beam search is shown only if "
        "the cost is generated tokens."
    )
    _table(points, cost)
    _areas(path, grid, group)


def _measured_strategies(path: Path, group: dict[str, str], metric: str) -> pd.DataFrame:
    """Return the points of the scaling leaderboard, without best-of-n + IAS, which is computed for the selected C."""
    cells = ask(path, "leaderboard", table="scaling", **{kind: [name] for kind, name in group.items()})
    if metric not in cells:
        return pd.DataFrame()
    recomputed = ask(path, "with_role", role="recomputed")
    done = cells[(cells["status"] == "done") & ~cells["strategy"].isin(recomputed)]
    if metric == "samples":
        done = done[~done["cell_id"].isin(ask(path, "searches"))]
    references = set(ask(path, "references"))
    rows = done.dropna(subset=[metric, "accuracy"]).to_dict("records")
    return pd.DataFrame([_point(row, metric, row["cell_id"] not in references) for row in rows])


def _point(row: dict[str, Any], metric: str, competes: bool) -> dict[str, Any]:
    calibrator = row["calibrator"] if isinstance(row["calibrator"], str) else None
    parts = [
        row["strategy"],
        *([calibrator] if calibrator else []),
        *settings_of(row["target"], row["level"]),
    ]
    return {
        "series": calibrator or FIXED,
        "name": ", ".join(parts),
        "label": "" if calibrator else row["strategy"],
        "competes": competes,
        "cost": row[metric],
        "cost_low": row[f"{metric}_low"],
        "cost_high": row[f"{metric}_high"],
        "accuracy": row["accuracy"],
        "accuracy_low": row["accuracy_low"],
        "accuracy_high": row["accuracy_high"],
    }


def _table(points: pd.DataFrame, cost: str) -> None:
    ordered = points.sort_values("cost", kind="stable")
    digits = 2 if cost == "samples" else 0
    show_table(
        {
            "Strategy": [with_line_breaks(escaped(name), _WORDS) for name in ordered["name"]],
            cost.capitalize(): estimates(ordered[["cost", "cost_low", "cost_high"]], digits),
            "Accuracy": estimates(ordered[["accuracy", "accuracy_low", "accuracy_high"]]),
            "Pareto-optimal": ["●" if each else "" for each in ordered["unbeaten"]],
        }
    )


def _areas(path: Path, grid: GridNames, group: dict[str, str]) -> None:
    areas = rows_of_group(ask(path, "curve_areas"), group)
    areas = areas[areas["name"] == "area"]
    if areas.empty:
        return
    with st.expander("Areas under the curves"):
        order = {name: index for index, name in enumerate(grid.calibrator)}
        areas = areas.assign(order=areas["calibrator"].map(order)).sort_values(["order", "level"])
        show_areas(areas)
        st.caption(
            "Area: mean accuracy over budgets from 1 sample to N samples, on a logarithmic scale. Higher is better. An "
            "area describes a whole curve and does not depend on C. The run computed it for every β."
        )
