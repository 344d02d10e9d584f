"""League: the whole curve of a strategy, compared with a fixed number of samples at equal cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.db.metrics import LEAGUE_BUDGETS, LEAGUE_SHARE, accuracy_at_name
from prmcal.db.statistics.budgets import Curve
from prmcal.db.statistics.intervals import bounded_interval
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.pools import test_pool, tuning_pool
from prmcal.harness.jobs.measurement.results import bootstrap_of, metric_tables
from prmcal.harness.jobs.measurement.strategy import check_answered
from prmcal.harness.jobs.measurement.trajectories import (
    GradedTrajectories,
    graded_trajectories,
    last_scores,
)
from prmcal.harness.jobs.parameters import LeagueParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard, require
from prmcal.harness.metrics.curves import fixed_curve
from prmcal.harness.metrics.league import (
    AccuracyAt,
    Area,
    AreaGain,
    CurveStatistic,
    SamplesTo,
    Saving,
    SmoothStatistic,
)
from prmcal.registry.contracts.strategy import Answered, PoolStrategy, Setting
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import best_of_each, curve_counts
from prmcal.remembered import remembered

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute"]

_COMPARED = ("area", "samples_to_95")


def compute(shard: Shard[LeagueParameters], context: Context) -> Output:
    """Return the points of the curve, and what it achieves at equal cost and at equal accuracy."""
    parameters = shard.parameters
    trajectories = graded_trajectories(shard, context)
    setting = Setting(parameters.samples)
    with plugin_guard("strategy", parameters.strategy.name, "give its curve"):
        strategy = parameters.strategy.build(strategies)
        assert isinstance(strategy, PoolStrategy)
        if strategy.tuned:
            strategy.tune(tuning_pool(shard, context, strategy.reads, parameters.level), setting)
        pool = test_pool(shard, context, trajectories, strategy.reads, parameters.level)
        swept = strategy.sweep(pool, setting)
        require(bool(swept), "its curve must have at least one point.")
        for answered in swept:
            check_answered(answered, strategy, pool.questions, setting)
    first = pool.correct.mean(axis=1)
    own = _curve(first, swept, setting.samples)
    fixed = _fixed(last_scores(shard, context), trajectories.correct, setting.samples)
    metrics = _metrics(trajectories, own, fixed, setting.samples)
    bootstrap = bootstrap_of(shard)
    # The other numbers are parts of these two, so only these are compared.
    results, replicates = metric_tables(metrics, bootstrap, compared=_COMPARED)
    results["rows"] = (results["questions"] * trajectories.correct.shape[1]).astype("int32")
    return Output(
        {
            "results": results,
            "question_results": _question_results(trajectories, metrics),
            "replicates": replicates,
            "league_points": _points(own, swept),
        }
    )


def _curve(first: NDArray[np.float64], swept: Sequence[Answered], most: int) -> Curve:
    """Return the curve of a strategy, which begins with one sample of each question."""
    costs = np.stack([np.ones(len(first)), *(each.samples for each in swept)], axis=1)
    accuracies = np.stack([first, *(np.minimum(each.accuracy, 1.0) for each in swept)], axis=1)
    order = np.argsort(costs.mean(axis=0), kind="stable")
    return Curve(costs[:, order], accuracies[:, order], partial(bounded_interval, upper=float(most)))


@remembered
def _fixed(scores: NDArray[np.float64], correct: NDArray[np.bool_], most: int) -> Curve:
    """Return the curve of best-of-n with a fixed n, with which all strategies of an LLM and a PRM are compared."""
    return fixed_curve(best_of_each(scores, correct, most), curve_counts(most))


def _metrics(
    trajectories: GradedTrajectories, own: Curve, fixed: Curve, most: int
) -> dict[str, CurveStatistic]:
    ids = trajectories.question_ids
    metrics: dict[str, CurveStatistic] = {}
    if most > 1:
        metrics["area"] = Area(ids, own, most)
        metrics["area_gain"] = AreaGain(ids, own, fixed, most)
    metrics["samples_to_95"] = SamplesTo(ids, own, fixed, most, LEAGUE_SHARE)
    metrics["saving_95"] = Saving(ids, own, fixed, most, LEAGUE_SHARE)
    for budget in LEAGUE_BUDGETS:
        if budget <= most:
            metrics[accuracy_at_name(budget)] = AccuracyAt(ids, own, budget)
    return metrics


def _question_results(trajectories: GradedTrajectories, metrics: dict[str, CurveStatistic]) -> pd.DataFrame:
    import pandas as pd

    smooth = {name: metric for name, metric in metrics.items() if isinstance(metric, SmoothStatistic)}
    questions = len(trajectories.question_ids)
    return pd.DataFrame(
        {
            "question_id": np.tile(trajectories.question_ids, len(smooth)),
            "question_level": pd.array(np.tile(trajectories.question_levels, len(smooth))).astype("Int32"),
            "metric": np.repeat(list(smooth), questions),
            "value": np.concatenate([metric.linearised() for metric in smooth.values()]),
        }
    )


def _points(curve: Curve, swept: Sequence[Answered]) -> pd.DataFrame:
    """Return the points with their intervals, and the largest error that a limited number of orders leaves."""
    import pandas as pd

    errors = [
        float(np.sqrt(np.sum(each.order_error**2)) / len(each.order_error))
        for each in swept
        if each.order_error is not None
    ]
    (cost, accuracy) = curve.intervals()
    return pd.DataFrame(
        {
            "point": np.arange(len(curve.cost), dtype=np.int32),
            "samples": curve.cost,
            "samples_low": cost[:, 0],
            "samples_high": cost[:, 1],
            "accuracy": curve.accuracy,
            "accuracy_low": accuracy[:, 0],
            "accuracy_high": accuracy[:, 1],
            "order_error": max(errors, default=0.0),
            "questions": np.int32(curve.questions),
        }
    )
