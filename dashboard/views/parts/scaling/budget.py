"""Accuracy against cost on page Scaling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from prmcal.dashboard.charts.cells import rows_of_group, settings_of
from prmcal.dashboard.charts.curves import (
    FIXED,
    adaptive_points,
    fixed_points,
    frontier_points,
    levels_of,
    selected,
)
from prmcal.dashboard.charts.findings import draw, highest_accuracy
from prmcal.dashboard.charts.scaling import frontier_chart
from prmcal.dashboard.controls.options import choose_option
from prmcal.dashboard.controls.selection import GridNames, grid_names
from prmcal.dashboard.controls.sliders import DEFAULT_TARGET
from prmcal.dashboard.data import ask, compute
from prmcal.dashboard.formats import escaped, estimates, with_line_breaks
from prmcal.dashboard.views.parts.scaling.equal_cost import choose_selection, show_gain, signals_of
from prmcal.dashboard.views.parts.tables import show_areas, show_table
from prmcal.db.charts import series_of
from prmcal.db.queries.curves import ExactCurves

__all__ = ["show_budget"]

_WORDS = 4
_COSTS = {"samples": "samples", "generated tokens": "generated_tokens"}
_ADAPTIVE = "best-of-n + IAS"
_COLUMNS = ["cost", "cost_low", "cost_high", "accuracy", "accuracy_low", "accuracy_high"]


def show_budget(
    path: Path,
    grid: GridNames,
    group: dict[str, str],
    pool: ExactCurves,
    row: DeltaGenerator,
    *,
    choices: DeltaGenerator,
) -> None:
    """Show what accuracy costs: curves, the points of all strategies, and the Pareto frontier."""
    target, level = choose_selection(pool, row)
    with choices:
        cost = choose_option("Cost", list(_COSTS), "cost", labelled=False)
    measured = _measured_strategies(path, group, _COSTS[cost])
    adaptive, fixed, frontier = compute(path, _tables, group=group, cost=cost)
    show_gain(path, group, pool, target, level)
    draw(
        frontier_chart(
            adaptive,
            fixed,
            measured,
            frontier,
            f"Mean {cost} per question",
            series_of(grid.calibrator, [*adaptive["series"].unique(), FIXED]),
            signals_of(pool),
        ),
        highest_accuracy(selected(adaptive, pool, DEFAULT_TARGET, levels_of(pool)[0]), fixed, cost),
    )
    st.caption(
        "Lines: best-of-n + IAS for all C, and best-of-n with a fixed n (dashed), with 95% bands over questions. Large "
        "points: the selected C. Small points: strategies as the run measured them. Wide grey line: the Pareto "
        "frontier. Read from the lowest cost, a point is on it if it is significantly more accurate than all points on "
        "it so far (paired t test over questions, p < .05). Strategies that need the ground truth are not on it. One "
        "sample of beam search is a single step, so beam search is shown only if the cost is generated tokens. So is a "
        "strategy that asks another LLM, since samples of two LLMs do not cost the same."
    )
    chosen = selected(adaptive, pool, target, level)
    _table(measured, chosen, selected(frontier, pool, target, level), cost)
    _areas(path, grid, group)


def _tables(path: Path, group: dict[str, str], cost: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return all points of best-of-n + IAS, those of a fixed n, and those on the frontier."""
    pool: ExactCurves = ask(path, "exact_curves", **group)
    calibrators = grid_names(path).calibrator
    tokens = cost != "samples"
    measured = _measured_strategies(path, group, _COSTS[cost])
    rivals = measured[measured["competes"]]
    values = ask(path, "question_accuracies", cells=list(rivals["cell_id"]))
    return (
        adaptive_points(pool, calibrators, tokens=tokens),
        fixed_points(pool, tokens=tokens),
        frontier_points(pool, calibrators, rivals, values, tokens=tokens),
    )


def _measured_strategies(path: Path, group: dict[str, str], metric: str) -> pd.DataFrame:
    """Return the points of the scaling leaderboard, without best-of-n + IAS, which is computed for the selected C."""
    columns = ["cell_id", "series", "name", "label", "competes", *_COLUMNS]
    cells = ask(path, "leaderboard", table="scaling", **{kind: [name] for kind, name in group.items()})
    if metric not in cells:
        return pd.DataFrame(columns=columns).astype({"competes": bool, "label": str})
    recomputed = ask(path, "with_role", role="recomputed")
    done = cells[(cells["status"] == "done") & ~cells["strategy"].isin(recomputed)]
    if metric == "samples":
        out = [*ask(path, "searches"), *ask(path, "asking_others")]
        done = done[~done["cell_id"].isin(out)]
    references = set(ask(path, "references"))
    rows = done.dropna(subset=[metric, "accuracy"]).to_dict("records")
    points = [_point(row, metric, row["cell_id"] not in references) for row in rows]
    return pd.DataFrame(points, columns=columns).astype({"competes": bool, "label": str})


def _point(row: dict[str, Any], metric: str, competes: bool) -> dict[str, Any]:
    calibrator = row["calibrator"] if isinstance(row["calibrator"], str) else None
    parts = [
        row["strategy"],
        *([calibrator] if calibrator else []),
        *settings_of(row["target"], row["level"]),
    ]
    return {
        "cell_id": row["cell_id"],
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


def _table(measured: pd.DataFrame, chosen: pd.DataFrame, frontier: pd.DataFrame, cost: str) -> None:
    named = [f"{_ADAPTIVE}, {name}" for name in chosen["series"]]
    on_it = pd.concat(
        [
            measured["cell_id"].isin(frontier["cell_id"].dropna()),
            chosen["series"].isin(frontier.loc[frontier["cell_id"].isna(), "series"]),
        ]
    )
    both = pd.concat([measured[["name", *_COLUMNS]], chosen.assign(name=named)[["name", *_COLUMNS]]])
    ordered = both.assign(on_frontier=on_it).sort_values("cost", kind="stable")
    digits = 2 if cost == "samples" else 0
    show_table(
        {
            "Strategy": [with_line_breaks(escaped(name), _WORDS) for name in ordered["name"]],
            cost.capitalize(): estimates(ordered[["cost", "cost_low", "cost_high"]], digits),
            "Accuracy": estimates(ordered[["accuracy", "accuracy_low", "accuracy_high"]]),
            "On the frontier": ["●" if each else "" for each in ordered["on_frontier"]],
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
