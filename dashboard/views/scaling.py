"""Page Scaling: accuracy against cost, by difficulty, and risk against coverage, for one data set, LLM and PRM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from prmcal.dashboard.charts.cells import rows_of_group, settings_of
from prmcal.dashboard.charts.curves import (
    FIXED,
    LEVEL,
    TARGET,
    TARGETS,
    adaptive_points,
    difficulty_points,
    equal_cost_points,
    fixed_points,
    frontier_points,
    levels_of,
    selected,
    used_levels,
)
from prmcal.dashboard.charts.findings import (
    draw,
    equal_cost,
    gain_of,
    hardest,
    highest_accuracy,
    percent,
    points,
    risk_areas,
)
from prmcal.dashboard.charts.scaling import difficulty_chart, equal_cost_chart, frontier_chart, risk_chart
from prmcal.dashboard.controls.cells import choose_group
from prmcal.dashboard.controls.context import GridNames, context_of, grid_names
from prmcal.dashboard.controls.widgets import (
    DEFAULT_TARGET,
    choose_level,
    choose_option,
    choose_target,
    choose_view,
    connect_sliders,
)
from prmcal.dashboard.data import ask
from prmcal.dashboard.formats import escaped, estimates, names, numbers, settings, with_line_breaks
from prmcal.dashboard.views.shared import show_areas, show_table
from prmcal.db import catalog
from prmcal.db.charts import series_of
from prmcal.db.queries.curves import ExactCurves
from prmcal.db.statistics.budgets import verdict


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
    rows = ask(_gain_rows, path, group=group)
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
    rows = ask(_gain_rows, path, group=group)
    if rows.empty:
        return
    wanted = context_of(path).choice.get("calibrator")
    if wanted not in set(rows["series"]):
        first = selected(rows, pool, DEFAULT_TARGET, levels_of(pool)[0])
        wanted = first.loc[first["accuracy"].idxmax(), "series"]
    chosen = selected(rows, pool, target, level)
    (row,) = chosen[chosen["series"] == wanted].itertuples()
    st.markdown(escaped(gain_of(row, pool.most)))


def _pool(path: Path, group: dict[str, str]) -> ExactCurves:
    """Return the curves of a place that has them."""
    found = ask(catalog.exact_curves, path, **group)
    assert found is not None  # the page shows a place without curves in another way
    return found


def _gain_rows(path: Path, group: dict[str, str]) -> pd.DataFrame:
    pool = _pool(path, group)
    return equal_cost_points(pool, grid_names(path).calibrator)


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
    adaptive, fixed, frontier = ask(_cost_tables, path, group=group, cost=cost)
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
    _cost_table(measured, chosen, selected(frontier, pool, target, level), cost)
    _areas(path, grid, group)


def _cost_tables(
    path: Path, group: dict[str, str], cost: str
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return all points of best-of-n + IAS, those of a fixed n, and those on the frontier."""
    pool = _pool(path, group)
    calibrators = grid_names(path).calibrator
    tokens = cost != "samples"
    measured = _measured_strategies(path, group, _COSTS[cost])
    rivals = measured[measured["competes"]]
    values = ask(catalog.question_accuracies, path, cells=list(rivals["cell_id"]))
    return (
        adaptive_points(pool, calibrators, tokens=tokens),
        fixed_points(pool, tokens=tokens),
        frontier_points(pool, calibrators, rivals, values, tokens=tokens),
    )


def _measured_strategies(path: Path, group: dict[str, str], metric: str) -> pd.DataFrame:
    """Return the points of the scaling leaderboard, without best-of-n + IAS, which is computed for the selected C."""
    columns = ["cell_id", "series", "name", "label", "competes", *_COLUMNS]
    cells = ask(catalog.leaderboard, path, table="scaling", **{kind: [name] for kind, name in group.items()})
    if metric not in cells:
        return pd.DataFrame(columns=columns).astype({"competes": bool, "label": str})
    recomputed = ask(catalog.with_role, path, role="recomputed")
    done = cells[(cells["status"] == "done") & ~cells["strategy"].isin(recomputed)]
    if metric == "samples":
        out = [*ask(catalog.searches, path), *ask(catalog.asking_others, path)]
        done = done[~done["cell_id"].isin(out)]
    references = set(ask(catalog.references, path))
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


def _cost_table(measured: pd.DataFrame, chosen: pd.DataFrame, frontier: pd.DataFrame, cost: str) -> None:
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
    areas = rows_of_group(ask(catalog.curve_areas, path), group)
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


def show_difficulty(
    path: Path, grid: GridNames, group: dict[str, str], pool: ExactCurves, row: DeltaGenerator
) -> None:
    """Show accuracy and samples for the questions of each difficulty level."""
    target, level = choose_selection(pool, row)
    adaptive, fixed = ask(_level_tables, path, group=group)
    if adaptive.empty:
        st.info("The questions of this data set have no difficulty levels.")
        return
    series = series_of(grid.calibrator, {*adaptive["series"], *fixed["series"]})
    first = selected(adaptive, pool, DEFAULT_TARGET, levels_of(pool)[0])
    left, right = st.columns(2)
    with left:
        draw(
            difficulty_chart(adaptive, fixed, "accuracy", "Accuracy", series, signals_of(pool)),
            hardest(first, "accuracy", "accuracy"),
        )
    with right:
        title = "Mean samples per question"
        draw(
            difficulty_chart(adaptive, None, "cost", title, series, signals_of(pool)),
            hardest(first, "cost", "mean samples"),
        )
    st.caption(
        "Solid lines: best-of-n + IAS with the selected C and β. Dashed lines: best-of-n with a fixed n. Vertical "
        "lines: 95% intervals over the questions of a difficulty level."
    )
    with st.expander("Numbers"):
        shown = pd.concat([fixed, selected(adaptive, pool, target, level)])
        shown = shown.sort_values("question_level", kind="stable")
        show_table(
            {
                "Difficulty": [str(each) for each in shown["question_level"]],
                "Strategy": [escaped(name) for name in shown["series"]],
                "Samples": numbers(shown["cost"], 2),
                "Accuracy": estimates(shown[["accuracy", "accuracy_low", "accuracy_high"]]),
                "Questions": [str(each) for each in shown["n"]],
            }
        )


def _level_tables(path: Path, group: dict[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    pool = _pool(path, group)
    return difficulty_points(pool, grid_names(path).calibrator)


def show_risk(
    path: Path, grid: GridNames, group: dict[str, str], pool: ExactCurves, row: DeltaGenerator
) -> None:
    """Show the risk-coverage curves of all calibrators, and the areas under them."""
    levels = levels_of(pool)
    with row:
        level = choose_level(levels)
    risks, areas = (
        rows_of_group(ask(each, path), group) for each in (catalog.risk_points, catalog.curve_areas)
    )
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


def show(path: Path) -> None:
    """Show the page for a published database."""
    st.title("Scaling")
    grid = grid_names(path)
    left, row = st.columns([3, 2])
    with left:
        group = choose_group(path, "scaling")
    if group is None:
        st.info("This run has no scaling cells.")
        return
    choices = st.container(horizontal=True)
    views: dict[str, Callable[..., None]] = {
        "Budget": partial(show_budget, choices=choices),
        "Equal cost": show_equal_cost,
        "Difficulty": show_difficulty,
        "Risk and coverage": show_risk,
    }
    with choices:
        view = choose_view(list(views))
    pool: ExactCurves | None = ask(catalog.exact_curves, path, **group)
    if pool is None:
        st.info("The scaling curves of this data set, LLM and PRM have not been computed yet.")
        return
    views[view](path, grid, group, pool, row)
    connect_sliders()
