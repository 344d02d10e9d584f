"""The page of scaling: what accuracy costs, by C and beta as the reader sets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from prmcal.dashboard.charts import scaling as scaling_charts
from prmcal.dashboard.charts import style as charts
from prmcal.dashboard.charts.scaling import FIXED
from prmcal.dashboard.controls.address import bound
from prmcal.dashboard.controls.places import Names, chosen_place, names_of
from prmcal.dashboard.controls.settings import calibrators_of, here, level_of, point_of, settings, show_areas
from prmcal.dashboard.data import ask
from prmcal.dashboard.text.plain import estimate, in_lines, plain
from prmcal.dashboard.views.parts.difficulty import show_difficulty, show_risk
from prmcal.db.queries.curves import unbeaten
from prmcal.db.queries.scaling import ScalingPool

__all__ = ["show"]

_WORDS = 4
_BUDGET, _DIFFICULTY, _RISK = "Budget", "Difficulty", "Risk and coverage"
_TARGETS = tuple(float(-np.expm1(-x)) for x in np.geomspace(0.05, 16, 32))
_COSTS = {"samples": "samples", "generated tokens": "generated_tokens"}
_RECOMPUTED = "best-of-n + IAS"


def show(path: Path) -> None:
    """Show accuracy against budget of one data set, LLM and PRM."""
    st.title("Scaling")
    names = names_of(path)
    if not (names.dataset and names.llm and names.prm):
        st.info("This run has no scaling cells.")
        return
    place = chosen_place(names)
    pool: ScalingPool | None = ask(path, "scaling_pool", **place)
    views = {_BUDGET: _show_budget, _DIFFICULTY: show_difficulty, _RISK: show_risk}
    view = st.segmented_control(
        "View", list(views), default=_BUDGET, required=True, **bound("view"), label_visibility="collapsed"
    )
    if pool is None:
        st.info("The curves of this data set, LLM and PRM have not been computed (yet).")
        return
    views[view](path, names, place, pool)


def _show_budget(path: Path, names: Names, place: dict[str, str], pool: ScalingPool) -> None:
    target, level = settings(pool)
    cost = st.segmented_control("Cost", list(_COSTS), default="samples", required=True, **bound("cost"))
    tokens = cost != "samples"
    used = calibrators_of(names, pool)
    chosen = {
        name: pool.adaptive(name, level_of(pool, name, level), [target], tokens=tokens) for name in used
    }
    rows = [
        *_cells(path, place, _COSTS[cost], pool, names),
        *(
            {
                "series": name,
                "strategy": _RECOMPUTED,
                "name": f"{_RECOMPUTED}, {name}",
                "note": "",
                "competes": True,
                **point_of(curve),
            }
            for name, curve in chosen.items()
        ),
    ]
    points, curves = _with_unbeaten(pd.DataFrame(rows), _curves(pool, used, level, tokens))
    colours = charts.colour_scale(names.calibrator, [*used, FIXED])
    charts.draw(
        scaling_charts.frontier_chart(
            curves,
            points,
            f"Mean {cost} per question",
            colours,
            charts.shape_scale(names.llm, [place["llm"]]).range[0],
        ),
        f"Accuracy against {cost} per question; the numbers of the points stand in the table below",
    )
    st.caption(
        "Lines: best-of-n + IAS for every C, and best-of-n with a fixed n (dashed), with 95% bands by bootstrap over "
        "questions. Points on the lines: the C that is set. Other points: strategies as the run measured them, with "
        "the C and β of their names and not those that are set. Wide grey line: the frontier of what no other beats in "
        "both cost and accuracy, best-of-n with a fixed n among them; strategies that need the truth are not on it. A "
        "sample of a beam search is one step and no whole solution: searches are shown where the cost is generated "
        "tokens."
    )
    _budget_table(points, cost)
    _areas(path, names, place)


def _with_unbeaten(points: pd.DataFrame, curves: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both with a column `unbeaten`: all points that compete do, and best-of-n with every n of its curve."""
    both = pd.concat([points, curves.assign(competes=curves["series"] == FIXED)], ignore_index=True)
    competing = both.loc[both["competes"], ["cost", "accuracy"]].round(9)  # pass@1 is best-of-1
    marks = np.zeros(len(both), dtype=np.bool_)
    marks[competing.index] = unbeaten(competing["cost"], competing["accuracy"])
    return points.assign(unbeaten=marks[: len(points)]), curves.assign(unbeaten=marks[len(points) :])


def _curves(pool: ScalingPool, used: list[str], level: float, tokens: bool) -> pd.DataFrame:
    counts = sorted(
        {*(2**power for power in range(pool.most.bit_length())), pool.most} - {2 ** pool.most.bit_length()}
    )
    counts = [count for count in counts if count <= pool.most]
    curves = {FIXED: pool.fixed(counts, tokens=tokens)}
    curves |= {
        name: pool.adaptive(name, level_of(pool, name, level), _TARGETS, tokens=tokens) for name in used
    }
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "series": name,
                    "cost": curve.cost,
                    "accuracy": curve.accuracy,
                    "accuracy_low": (ends := curve.intervals()[1])[:, 0],
                    "accuracy_high": ends[:, 1],
                }
            )
            for name, curve in curves.items()
        ]
    )


def _cells(
    path: Path, place: dict[str, str], metric: str, pool: ScalingPool, names: Names
) -> list[dict[str, Any]]:
    """The other strategies, as the leaderboard has them. Best-of-n + IAS is computed here for the C that is set."""
    cells = ask(path, "leaderboard", table="scaling", **{kind: [name] for kind, name in place.items()})
    if metric not in cells:
        return []
    plugins = ask(path, "plugins")
    recomputed = set(plugins[plugins["plugin"] == _RECOMPUTED]["name"]) | {_RECOMPUTED}
    done = cells[(cells["status"] == "done") & ~cells["strategy"].isin(recomputed)]
    if metric == "samples":
        done = done[~done["cell_id"].isin(ask(path, "searches"))]
    references = set(ask(path, "references"))
    found = []
    for row in done.dropna(subset=[metric, "accuracy"]).to_dict("records"):
        calibrator = row["calibrator"] if isinstance(row["calibrator"], str) else None
        named = row["strategy"] if calibrator is None else f"{row['strategy']}, {calibrator}"
        setting = "".join(
            f", {sign}={row[name]:g}"
            for sign, name in (("C", "target"), ("β", "level"))
            if not pd.isna(row[name])
        )
        found.append(
            {
                "series": calibrator or FIXED,
                "strategy": row["strategy"],
                "name": f"{named}{setting}",
                "note": row["strategy"] if calibrator is None else "",
                "competes": row["cell_id"] not in references,
                "cost": row[metric],
                "cost_low": row[f"{metric}_low"],
                "cost_high": row[f"{metric}_high"],
                "accuracy": row["accuracy"],
                "low": row["accuracy_low"],
                "high": row["accuracy_high"],
            }
        )
    return found


def _budget_table(points: pd.DataFrame, cost: str) -> None:
    ordered = points.sort_values("cost", kind="stable")
    digits = 2 if cost == "samples" else 0
    shown = {
        "Strategy": [in_lines(plain(name), _WORDS) for name in ordered["name"]],
        cost.capitalize(): [
            plain(estimate(row.cost, row.cost_low, row.cost_high, digits)) for row in ordered.itertuples()
        ],
        "Accuracy": [
            plain(estimate(*row)) for row in ordered[["accuracy", "low", "high"]].itertuples(index=False)
        ],
        "Unbeaten": ["●" if each else "" for each in ordered["unbeaten"]],
    }
    st.table(pd.DataFrame(shown), border="horizontal", hide_index=True)


def _areas(path: Path, names: Names, place: dict[str, str]) -> None:
    found = here(ask(path, "curve_areas"), place)
    found = found[found["name"] == "area"]
    if found.empty:
        return
    with st.expander("Areas under the curves"):
        order = {name: index for index, name in enumerate(names.calibrator)}
        found = found.assign(order=found["calibrator"].map(order)).sort_values(["order", "level"])
        show_areas(found)
        st.caption(
            "Mean accuracy over budgets from 1 sample to N, every doubling alike. Higher is better. Of whole curves, "
            "and so of no C; as the run computed them for each β."
        )
