"""Page Scaling: accuracy against cost for one data set, LLM and PRM."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from prmcal.dashboard.charts import answers, curves
from prmcal.dashboard.charts.drawn import equal_cost_chart, frontier_chart
from prmcal.dashboard.charts.trajectory import draw, extremes, percent, points
from prmcal.dashboard.controls.context import choose_group, context_of, grid_names
from prmcal.dashboard.controls.widgets import ask, bound, choose_view
from prmcal.dashboard.formats import CAPTIONS, escaped, estimates, number
from prmcal.dashboard.views.shared import choose_drawn, show_question, show_table
from prmcal.db import catalog
from prmcal.db.charts import series_of
from prmcal.db.queries.curves import ExactCurves
from prmcal.db.statistics.budgets import verdict

_COLUMNS = ["cost", "cost_low", "cost_high", "accuracy", "accuracy_low", "accuracy_high"]
_TARGET = 0.99  # the C that is shown first


@dataclass(frozen=True)
class _Setting:
    """The data set, the LLM and the PRM of the page, with the curves of their pool.

    `group` has their names, and `calibrators` are the grid's. A view puts its sliders into `controls`, and its finding
    into `answer`.
    """

    path: Path
    group: dict[str, str]
    calibrators: list[str]
    pool: ExactCurves
    controls: DeltaGenerator
    answer: DeltaGenerator

    def choose_selection(self) -> tuple[float, float]:
        """Let the reader choose C and beta."""
        with self.controls:
            left, right = st.columns([3, 2])
        with left:
            target = st.select_slider(
                "Target probability C",
                curves.TARGETS,
                **bound("C", curves.TARGETS, _TARGET, text="{:g}".format),
                help="IAS draws so many samples that at least one of them is correct with probability C",
            )
        with right:
            return float(target), self.choose_level()

    def choose_level(self) -> float:
        """Let the reader choose beta if there are several levels. The first one is the default."""
        levels = curves.levels_of(self.pool)
        if len(levels) < 2:
            return levels[0]
        level = st.select_slider(
            "Quantile level β",
            levels,
            **bound("beta", levels, text="{:g}".format),
            help="IAS uses this quantile of the success probability. Calibrators without it use their point estimate",
        )
        return float(level)

    def choose_series(self, gains: pd.DataFrame, more: Sequence[str] = ()) -> list[str]:
        """Let the reader choose the drawn calibrators: by default the two most accurate ones and the baseline."""
        ranked = gains.sort_values("accuracy", ascending=False, kind="stable")["series"]
        return choose_drawn(self.path, list(ranked), more)

    def show_gain(self, target: float, level: float) -> pd.DataFrame:
        """Write one sentence on the gain of IAS at equal cost, and return the gains of all calibrators.

        The sentence is about the calibrator in the context. Without a calibrator in the context, it is about the
        calibrator of the highest accuracy.
        """
        rows = ask(_gains_at_once, self.path, group=self.group, target=target, level=level)
        if len(rows):
            chosen = rows[rows["series"] == context_of(self.path).choice.get("calibrator")]
            row = next((chosen if len(chosen) else rows.nlargest(1, "accuracy")).itertuples())
            best = len(rows) if chosen.empty else 1
            fixed = curves.fixed_points(self.pool).iloc[[0, -1]]
            self.answer.markdown(answers.of_samples(row, fixed, best))
        return rows


def _show_equal_cost(setting: _Setting) -> None:
    target, level = setting.choose_selection()
    rows = ask(_gains, setting.path, group=setting.group, level=level)
    if rows.empty:
        st.info("No calibrator has rewards for this data set, LLM and PRM.")
        return
    gains = setting.show_gain(target, level)
    rows = rows[rows["series"].isin(setting.choose_series(gains))]
    calibrators = [name for name in setting.calibrators if name in set(rows["series"])]
    chart = equal_cost_chart(rows, series_of(calibrators, calibrators), target)
    title, differences = f"Difference at C = {target:g}", 100 * gains["difference"]
    draw(chart, extremes(title, gains["series"], differences, "{:.1f} points".format))
    st.caption(CAPTIONS["equal cost"])
    verdicts = [verdict(low, high) for low, high in zip(gains["low"], gains["high"], strict=True)]
    with st.expander("All calibrators in numbers"):
        st.caption(CAPTIONS["equal cost table"])
        show_table(
            {
                "Calibrator": gains["series"],
                "β": [f"{beta:g}" for beta in gains["beta"]],
                "Samples": [number(samples, 2) for samples in gains["samples"]],
                "Accuracy": [percent(accuracy) for accuracy in gains["accuracy"]],
                "Fixed n of equal cost": [percent(accuracy) for accuracy in gains["fixed"]],
                "Difference": [escaped(points(row.difference, row.low, row.high)) for row in gains.itertuples()],
                "Verdict": [f"**{text}**" if text == "gain" else text for text in verdicts],
            }
        )


def _pool(path: Path, group: dict[str, str]) -> ExactCurves:
    pool = ask(catalog.exact_curves, path, **group)
    assert pool is not None  # the page shows a setting without curves in another way
    return pool


def _gains(path: Path, group: dict[str, str], level: float) -> pd.DataFrame:
    return curves.equal_cost_points(_pool(path, group), grid_names(path)["calibrator"], level)


def _gains_at_once(path: Path, group: dict[str, str], target: float, level: float) -> pd.DataFrame:
    return curves.gains_at_once(_pool(path, group), grid_names(path)["calibrator"], target, level)


def _show_budget(setting: _Setting) -> None:
    target, level = setting.choose_selection()
    strategies = _measured_strategies(setting.path, setting.group)
    adaptive, fixed = ask(_curves, setting.path, group=setting.group, level=level)
    rivals = strategies[strategies["competes"]]
    values = ask(catalog.question_accuracies, setting.path, cells=list(rivals["cell_id"]))
    frontier = curves.frontier_points(setting.pool, setting.calibrators, rivals, values, target, level)
    names_drawn = setting.choose_series(setting.show_gain(target, level), sorted(set(strategies["label"]) - {""}))
    # Few lines have colours of their own, whatever their calibrators have elsewhere.
    calibrators = [name for name in setting.calibrators if name in names_drawn]
    series = series_of(calibrators, [*calibrators, curves.FIXED])
    at_target, lines = adaptive[adaptive["C"] == target], adaptive[adaptive["series"].isin(names_drawn)]
    points_drawn = strategies[strategies["label"].isin(names_drawn)]
    chart = frontier_chart(lines, fixed, points_drawn, frontier, series, target)
    title = f"Accuracy of best-of-n + IAS at C = {target:g}"
    draw(chart, extremes(title, at_target["series"], at_target["accuracy"], percent))
    st.caption(CAPTIONS["budget"])
    _cost_table(strategies, at_target, frontier)


def _curves(path: Path, group: dict[str, str], level: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    pool = _pool(path, group)
    return curves.adaptive_points(pool, grid_names(path)["calibrator"], level), curves.fixed_points(pool)


def _measured_strategies(path: Path, group: dict[str, str]) -> pd.DataFrame:
    """Return the points of the scaling leaderboard, without searches, whose samples are steps.

    Best-of-n + IAS is computed for the selected C.
    """
    columns = ["cell_id", "series", "name", "label", "competes", *_COLUMNS]
    cells = ask(catalog.leaderboard, path, table="scaling", **{kind: [name] for kind, name in group.items()})
    if "samples" not in cells:
        return pd.DataFrame(columns=columns).astype({"competes": bool, "label": str})
    recomputed, references = ask(catalog.with_role, path, role="recomputed"), ask(catalog.references, path)
    done = cells[(cells["status"] == "done") & ~cells["strategy"].isin(recomputed)]
    rows = done[~done["cell_id"].isin(ask(catalog.searches, path))].dropna(subset=["samples", "accuracy"])
    names_of = zip(rows["strategy"], rows["calibrator"].fillna(""), rows["target"], rows["level"], strict=True)
    strategies = rows.assign(
        series=rows["calibrator"].fillna(curves.FIXED),
        name=[", ".join(filter(None, [*names[:2], *curves.parameter_texts(*names[2:])])) for names in names_of],
        label=rows["strategy"].where(rows["calibrator"].isna(), ""),
        competes=~rows["cell_id"].isin(references),
    )
    return strategies.rename(columns={f"samples{end}": f"cost{end}" for end in ("", "_low", "_high")})[columns]


def _cost_table(strategies: pd.DataFrame, at_target: pd.DataFrame, frontier: pd.DataFrame) -> None:
    """Show all points with their intervals. Points of best-of-n + IAS are on the frontier by their calibrator."""
    adaptive = at_target.assign(
        name="best-of-n + IAS, " + at_target["series"], on_it=at_target["series"].isin(frontier["series"])
    )
    points_on_curve = pd.concat([strategies.assign(on_it=strategies["cell_id"].isin(frontier["cell_id"])), adaptive])
    ordered = points_on_curve.sort_values("cost", kind="stable")
    with st.expander("All strategies in numbers"):
        st.caption(CAPTIONS["frontier"])
        show_table(
            {
                "Strategy": ordered["name"],
                "Samples": estimates(ordered[["cost", "cost_low", "cost_high"]], 2),
                "Accuracy": estimates(ordered[["accuracy", "accuracy_low", "accuracy_high"]]),
                "On the frontier": ["●" if is_on else "" for is_on in ordered["on_it"]],
            }
        )


_VIEWS: dict[str, Callable[[_Setting], None]] = {"Budget": _show_budget, "Equal cost": _show_equal_cost}


def show(path: Path) -> None:
    """Show the page for a published database."""
    answer = show_question("What do more samples buy?")
    column, controls = st.columns([3, 2])
    with column:
        group = choose_group(path, "scaling")
    controls = controls.container(key="folded controls")
    if group is None:
        st.info("This run has no scaling cells.")
        return
    view = choose_view(list(_VIEWS), resets=["drawn"])
    pool: ExactCurves | None = ask(catalog.exact_curves, path, **group)
    if pool is None:
        st.info("The scaling curves of this data set, LLM and PRM have not been computed yet.")
        return
    _VIEWS[view](_Setting(path, group, grid_names(path)["calibrator"], pool, controls, answer))
