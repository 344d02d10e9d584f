"""Accuracy against budget: of fixed n and of IAS, and the whole curve of a strategy."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from prmcal.arrays import Bools, Floats
from prmcal.db.metrics import LEAGUE_BUDGETS, LEAGUE_SHARE, accuracy_at_name
from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.db.statistics.budgets import Curve
from prmcal.db.statistics.intervals import bounded_interval, known_interval
from prmcal.harness.jobs import pools
from prmcal.harness.jobs.calibration_metrics import metric_tables
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import CurvesParameters, LeagueParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard, require
from prmcal.harness.jobs.strategy import check_answered, order_error, tuned_strategy
from prmcal.harness.metrics import curves, league
from prmcal.registry.contracts.strategy import SWEPT_TARGETS, Answered, Setting
from prmcal.registry.strategies.best_of import best_of_each, curve_counts
from prmcal.remembered import remembered

_Area = tuple[str, float | None, float, float, float]
"""The name of an area, its level, its value and the ends of its interval."""

_THRESHOLDS = np.round(np.linspace(0, 1, 21), 2)


def compute_curves(shard: Shard[CurvesParameters], context: Context) -> Output:
    """Return points overall and by difficulty, areas, and the risk against coverage of each level."""
    trajectories = pools.graded_trajectories(shard, context)
    table = best_of_each(pools.last_scores(shard, context), trajectories.correct, shard.parameters.samples)
    if "calibrated" not in shard.inputs:
        return Output(_fixed(trajectories, table, shard.parameters.bootstrap))
    source = shard, "calibrated", "calibrated_rewards"
    at_levels = context.made_of(*source, pools.bare_rewards, trajectories.question_ids)
    levels = context.made_of(*source, pools.levels_of)
    return Output(_adaptive(trajectories, table, levels, at_levels, shard.parameters.bootstrap))


def _fixed(axis: pools.QuestionAxis, table: Floats, bootstrap: Bootstrap) -> dict[str, pd.DataFrame]:
    most = table.shape[1]
    counts = sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})
    areas: list[_Area] = []
    if most > 1:
        every = curves.fixed_curve(table, range(1, most + 1))
        areas.append(("area", None, *curves.area_under(_ends(table), every, most, bootstrap)))
    return {
        "curve_points": _points(axis, curves.fixed_curve(table, counts), [None], [None] * len(counts)),
        "curve_areas": _areas(areas, len(table)),
        "sample_accuracies": _by_question(axis, table),
    }


def _adaptive(
    axis: pools.QuestionAxis, table: Floats, levels: Sequence[float], rewards: Floats, bootstrap: Bootstrap
) -> dict[str, pd.DataFrame]:
    most = table.shape[1]
    areas: list[_Area] = []
    for level, reward in zip(levels, rewards.T, strict=True):
        if most > 1:
            swept = curves.adaptive_curve(table, reward, SWEPT_TARGETS)
            areas.append(("area", level, *curves.area_under(_ends(table), swept, most, bootstrap)))
        risk = estimate(curves.RiskCoverageArea(reward, table[:, -1], axis.question_ids), bootstrap)
        areas.append(("risk_coverage_area", level, risk.value, risk.low, risk.high))
    risks = curves.risk_at(_THRESHOLDS, rewards, table[:, -1])
    return {
        "curve_points": _points(
            axis, curves.adaptive_curve(table, rewards.T, curves.TARGETS), levels, curves.TARGETS
        ),
        "curve_areas": _areas(areas, len(table)),
        "risk_points": pd.DataFrame(
            {
                "level": np.repeat(levels, len(_THRESHOLDS)),
                "threshold": np.tile(_THRESHOLDS, len(levels)),
                **{name: values.ravel() for name, values in risks.items()},
                "questions": np.int32(len(table)),
            }
        ),
    }


def _by_question(axis: pools.QuestionAxis, table: Floats) -> pd.DataFrame:
    """Return the accuracy of each question with each number of samples, from which that of any setting follows."""
    questions, most = table.shape
    levels = pools.level_column(axis.question_levels)
    return pd.DataFrame(
        {
            "question_id": np.repeat(axis.question_ids, most),
            "question_level": levels.repeat(most),
            "samples": np.tile(np.arange(1, most + 1, dtype=np.int32), questions),
            "accuracy": table.ravel(),
        }
    )


def _ends(table: Floats) -> Curve:
    return curves.fixed_curve(table, [1, table.shape[1]])


def _points(
    axis: pools.QuestionAxis, curve: Curve, levels: Sequence[float | None], targets: Sequence[float | None]
) -> pd.DataFrame:
    """Return the points of all questions and of each difficulty, by level, difficulty and target.

    The curve has the points of each target at the first level, then those at the next level.
    """
    tables = [
        pd.DataFrame(
            {
                "level": pd.array(list(levels), dtype="Float64").repeat(len(targets)),
                "target": pd.array([*targets] * len(levels), dtype="Float64"),
                "question_level": pools.level_column([difficulty] * len(curve.cost)),
                "point": np.tile(np.arange(len(targets), dtype=np.int32), len(levels)),
                **_with_intervals(curve.part(chosen)),
            }
        )
        for difficulty, chosen in axis.by_difficulty()
    ]
    numbers = np.repeat(np.arange(len(levels)), len(targets))
    order = np.argsort(np.tile(numbers, len(tables)), kind="stable")
    return pd.concat(tables, ignore_index=True).iloc[order].reset_index(drop=True)


def _with_intervals(curve: Curve) -> dict[str, Any]:
    """Return the points of a curve, with their 95% intervals, as columns."""
    cost, accuracy = curve.intervals()
    return {
        "samples": curve.cost,
        "samples_low": cost[:, 0],
        "samples_high": cost[:, 1],
        "accuracy": curve.accuracy,
        "accuracy_low": accuracy[:, 0],
        "accuracy_high": accuracy[:, 1],
        "questions": np.int32(curve.questions),
    }


def _areas(rows: Sequence[_Area], questions: int) -> pd.DataFrame:
    columns = ("name", "level", "value", "low", "high")
    table = pd.DataFrame(rows, columns=columns).assign(questions=questions)
    numbers = dict.fromkeys(columns[1:], "Float64")
    return table.astype({"name": "str", **numbers, "questions": "int32"})


_COMPARED = ("area", "samples_to_95")


def compute_league(shard: Shard[LeagueParameters], context: Context) -> Output:
    """Return the points of the curve, and what it achieves at equal cost and at equal accuracy."""
    parameters = shard.parameters
    trajectories = pools.graded_trajectories(shard, context)
    setting = Setting(parameters.samples)
    with plugin_guard("strategy", parameters.strategy.name, "give its curve"):
        strategy = tuned_strategy(shard, context, setting)
        pool = pools.test_pool(shard, context, trajectories, strategy.reads, parameters.level)
        swept = strategy.sweep(pool, setting)
        require(bool(swept), "its curve must have at least one point.")
        for answered in swept:
            check_answered(answered, strategy, pool.questions, setting)
    first = pool.correct.mean(axis=1)
    own = _curve(first, swept, setting.samples)
    fixed = _fixed_in_league(pools.last_scores(shard, context), trajectories.correct, setting.samples)
    metrics = _metrics(trajectories, own, fixed, setting.samples)
    # The other numbers are parts of these two, so only these are compared.
    results, replicates = metric_tables({None: metrics}, parameters.bootstrap, _COMPARED)
    results["rows"] = (results["questions"] * trajectories.correct.shape[1]).astype("int32")
    return Output(
        {
            "results": results,
            "question_results": trajectories.table(
                {
                    name: metric.linearised()
                    for name, metric in metrics.items()
                    if isinstance(metric, league.SmoothStatistic)
                }
            ),
            "replicates": replicates,
            "league_points": _league_points(own, swept),
        }
    )


def _curve(first: Floats, swept: Sequence[Answered], most: int) -> Curve:
    """Return the curve of a strategy, which begins with one sample of each question."""
    costs = np.stack([np.ones(len(first)), *(each.samples for each in swept)], axis=1)
    accuracies = np.stack([first, *(np.minimum(each.accuracy, 1.0) for each in swept)], axis=1)
    order = np.argsort(costs.mean(axis=0), kind="stable")
    known = all(each.fixed for each in swept)
    rule = known_interval if known else partial(bounded_interval, upper=float(most))
    return Curve(costs[:, order], accuracies[:, order], rule)


@remembered
def _fixed_in_league(scores: Floats, correct: Bools, most: int) -> Curve:
    """Return the curve of best-of-n with a fixed n, with which all strategies of an LLM and a PRM are compared."""
    return curves.fixed_curve(best_of_each(scores, correct, most), curve_counts(most))


def _metrics(
    trajectories: pools.GradedTrajectories, own: Curve, fixed: Curve, most: int
) -> dict[str, league.CurveStatistic]:
    ids = trajectories.question_ids
    metrics: dict[str, league.CurveStatistic] = {}
    if most > 1:
        metrics["area"] = league.area(ids, own, most)
        metrics["area_gain"] = league.area_gain(ids, own, fixed, most)
    metrics["samples_to_95"] = league.samples_to_share(ids, own, fixed, most, LEAGUE_SHARE)
    metrics["saving_95"] = league.saving(ids, own, fixed, most, LEAGUE_SHARE)
    for budget in LEAGUE_BUDGETS:
        if budget <= most:
            metrics[accuracy_at_name(budget)] = league.accuracy_at_budget(ids, own, budget)
    return metrics


def _league_points(curve: Curve, swept: Sequence[Answered]) -> pd.DataFrame:
    """Return the points with their intervals, and the largest error that a limited number of orders leaves."""
    errors = [order_error(each.order_error) for each in swept if each.order_error is not None]
    points = pd.DataFrame({"point": np.arange(len(curve.cost), dtype=np.int32), **_with_intervals(curve)})
    points.insert(7, "order_error", max(errors, default=0.0))  # before "questions"
    return points
