"""Curves of accuracy against budget: for fixed n and IAS, and for all variants of a strategy at once."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from prmcal.arrays import Bools, Floats, Ints
from prmcal.db.metrics import LEAGUE_BUDGETS, LEAGUE_SHARE, accuracy_at_name
from prmcal.db.statistics.budgets import Curve
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, exact_interval
from prmcal.errors import DataError
from prmcal.harness.jobs import pools
from prmcal.harness.jobs.calibration_metrics import metric_tables
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import CurvesParameters, LeagueParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.strategy import order_error, tuned_strategy
from prmcal.harness.metrics import league
from prmcal.registry.contracts.results import check_answered, require
from prmcal.registry.contracts.strategy import Allowance, Answered
from prmcal.registry.strategies.best_of import best_of_each, curve_counts
from prmcal.registry.strategies.scaling import adaptive_samples
from prmcal.remembered import remembered

_COMPARED = ("area", "samples_to_95")
TARGETS = tuple(float(-np.expm1(-x)) for x in (0.125, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0))
"""The eight values of C in the paper's ablation: log(1 - C) from -0.125 to -5."""


def compute_curves(shard: Shard[CurvesParameters], context: Context) -> Output:
    """Return the points of accuracy against budget, overall and by difficulty, and the accuracy for each n."""
    trajectories = pools.graded_trajectories(shard, context)
    table = best_of_each(pools.last_scores(shard, context), trajectories.correct, shard.parameters.samples)
    if "calibrated" not in shard.inputs:
        samples = table.shape[1]
        counts = sorted({*(2**power for power in range(samples.bit_length()) if 2**power <= samples), samples})
        fixed = _points(trajectories, fixed_curve(table, counts), [None], [None] * len(counts))
        return Output({"curve_points": fixed, "sample_accuracies": _by_question(trajectories, table)})
    source = shard, "calibrated", "calibrated_rewards"
    at_levels = context.made_of(*source, pools.bare_rewards, trajectories.question_ids)
    levels = context.made_of(*source, pools.levels_of)
    curve = adaptive_curve(table, at_levels.T, TARGETS)
    return Output({"curve_points": _points(trajectories, curve, levels, TARGETS)})


def _by_question(axis: pools.QuestionAxis, table: Floats) -> pd.DataFrame:
    """Return the accuracy of each question with each number of samples. From it follows the accuracy of any variant."""
    questions, samples = table.shape
    levels = pools.level_column(axis.question_levels)
    ids, counts = np.repeat(axis.question_ids, samples), np.arange(1, samples + 1, dtype=np.int32)
    columns = {"question_id": ids, "question_level": levels.repeat(samples), "samples": np.tile(counts, questions)}
    return pd.DataFrame({**columns, "accuracy": table.ravel()})


def _points(
    axis: pools.QuestionAxis, curve: Curve, levels: Sequence[float | None], targets: Sequence[float | None]
) -> pd.DataFrame:
    """Return the points of all questions and of each difficulty, by level, difficulty and target.

    The curve has the points of each target at the first level, then at the next level.
    """
    tables = [
        pd.DataFrame(
            {
                "level": pd.array(list(levels), dtype="Float64").repeat(len(targets)),
                "target": pd.array([*targets] * len(levels), dtype="Float64"),
                "question_level": pools.level_column([difficulty] * len(curve.cost)),
                "point": np.tile(np.arange(len(targets), dtype=np.int32), len(levels)),
                **curve.part(selection).columns("samples"),
                "questions": np.int32(selection.sum()),
            }
        )
        for difficulty, selection in axis.by_difficulty()
    ]
    return pd.concat(tables).sort_values("level", kind="stable", ignore_index=True)


def compute_league(shard: Shard[LeagueParameters], context: Context) -> Output:
    """Return the points of the curve, its gain at equal cost and its saving at equal accuracy."""
    parameters = shard.parameters
    if parameters.samples < 2:
        raise DataError("A league needs at least 2 samples. Leave out this data set in 'datasets' of the strategy.")
    trajectories = pools.graded_trajectories(shard, context)
    allowance = Allowance(parameters.samples)
    with plugin_guard("strategy", parameters.strategy.name, "give its curve"):
        strategy = tuned_strategy(shard, context, allowance)
        pool = pools.pool_of(shard, context, trajectories, strategy.reads, parameters.level)
        swept = strategy.sweep(pool, allowance)
        require(bool(swept), "its curve must have at least one point.")
        for answered in swept:
            check_answered(answered, pool.questions, allowance)
    single_accuracy = pool.correct.mean(axis=1)
    curve = _best_curve(single_accuracy, swept, allowance.samples)
    fixed = _fixed_in_league(pools.last_scores(shard, context), trajectories.correct, allowance.samples)
    metrics = _metrics(trajectories.question_ids, curve, fixed, allowance.samples)
    # The other numbers are parts of these two, so only these are compared.
    results, replicates = metric_tables({None: metrics}, parameters.bootstrap, _COMPARED)
    results["rows"] = (results["questions"] * trajectories.correct.shape[1]).astype("int32")
    smooth = {name: metric for name, metric in metrics.items() if isinstance(metric, league.SmoothStatistic)}
    by_question = trajectories.table({name: metric.linearised() for name, metric in smooth.items()})
    tables = {"results": results, "question_results": by_question, "replicates": replicates}
    return Output({**tables, "league_points": _league_points(curve, swept)})


def _best_curve(single_accuracy: Floats, swept: Sequence[Answered], samples: int) -> Curve:
    """Return the curve of a strategy, which begins with one sample of each question."""
    costs = np.stack([np.ones(len(single_accuracy)), *(point.samples for point in swept)], axis=1)
    accuracies = np.stack([single_accuracy, *(np.minimum(point.accuracy, 1.0) for point in swept)], axis=1)
    order = np.argsort(costs.mean(axis=0), kind="stable")
    is_known = all(point.fixed for point in swept)
    rule = exact_interval if is_known else partial(bounded_interval, upper=float(samples))
    return Curve(costs[:, order], accuracies[:, order], rule)


@remembered
def _fixed_in_league(scores: Floats, correct: Bools, samples: int) -> Curve:
    """Return the curve of best-of-n with a fixed n. All strategies of an LLM and a PRM are compared with it."""
    return fixed_curve(best_of_each(scores, correct, samples), curve_counts(samples))


def _metrics(ids: NDArray[Any], curve: Curve, fixed: Curve, samples: int) -> dict[str, league.CurveStatistic]:
    budgets = [budget for budget in LEAGUE_BUDGETS if budget <= samples]
    return {
        "area": league.area(ids, curve, samples),
        "area_gain": league.area_gain(ids, curve, fixed, samples),
        "samples_to_95": league.samples_to_share(ids, curve, fixed, samples, LEAGUE_SHARE),
        "saving_95": league.saving(ids, curve, fixed, samples, LEAGUE_SHARE),
        **{accuracy_at_name(budget): league.accuracy_at_budget(ids, curve, budget) for budget in budgets},
    }


def _league_points(curve: Curve, swept: Sequence[Answered]) -> pd.DataFrame:
    """Return the points with their intervals, and the largest error due to the limited number of orders."""
    errors = [order_error(point.order_error) for point in swept if point.order_error is not None]
    numbers = {"point": np.arange(len(curve.cost), dtype=np.int32), **curve.columns("samples")}
    return pd.DataFrame({**numbers, "order_error": max(errors, default=0.0), "questions": np.int32(curve.questions)})


def fixed_curve(table: Floats, counts: Sequence[int] | Ints) -> Curve:
    """Return the curve of best-of-n with the same n for every question, with a point for each n in [1, N].

    `table` is ``best_of_each(scores, correct, N)``, of shape (questions, N).
    """
    samples = np.tile(np.asarray(counts, dtype=np.int64), (len(table), 1))
    return _curve(table, samples, exact_interval)


def adaptive_curve(table: Floats, rewards: ArrayLike, targets: Sequence[float]) -> Curve:
    """Return the curve of best-of-n + IAS, with a point for every target probability C in (0, 1).

    `table` is ``best_of_each(scores, correct, N)``, of shape (questions, N), which is the same for all calibrators and
    levels. `rewards` are the calibrated rewards of the bare questions: of shape (questions,) for one series (a
    calibrator and a level), or (series, questions) for several. The points of the first series are in the order of
    `targets`, then come the points of the next series.
    """
    series = np.atleast_2d(np.asarray(rewards, dtype=np.float64)).T
    questions, samples = table.shape
    sample_counts = adaptive_samples(series[..., None], targets, samples)
    return _curve(table, sample_counts.reshape(questions, -1), partial(bounded_interval, upper=float(samples)))


def _curve(table: Floats, samples: NDArray[Any], cost_rule: IntervalRule) -> Curve:
    accuracy = np.take_along_axis(table, samples - 1, axis=1)
    return Curve(samples.astype(np.float64), accuracy, cost_rule)
