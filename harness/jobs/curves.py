"""Accuracy against budget: of fixed n and of IAS, of all settings of a strategy at once, and selective answering.

A model that answers selectively says "I don't know" to questions with low calibrated rewards. Questions are answered
in descending order of reward. The coverage c is the share of questions that are answered, and the risk is the share
of wrong answers among them. The area under risk against coverage is the mean risk over all coverages (Geifman and
El-Yaniv, 2017). If rewards are uninformative, it is the risk of answering all questions; it is smaller the better the
rewards order the questions. The area depends only on the order of the rewards and not on their values.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from prmcal.arrays import Bools, Floats, Ints
from prmcal.db.metrics import LEAGUE_BUDGETS, LEAGUE_SHARE, accuracy_at_name
from prmcal.db.statistics.bootstrap import Bootstrap, Statistic, estimate
from prmcal.db.statistics.budgets import Curve
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, known_interval, percentile_interval
from prmcal.harness.jobs import pools
from prmcal.harness.jobs.calibration_metrics import metric_tables
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import CurvesParameters, LeagueParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.strategy import order_error, tuned_strategy
from prmcal.harness.metrics import league
from prmcal.registry.contracts.results import check_answered, require
from prmcal.registry.contracts.strategy import SWEPT_TARGETS, Answered, Setting
from prmcal.registry.strategies.best_of import best_of_each, curve_counts
from prmcal.registry.strategies.scaling import adaptive_samples
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
        every = fixed_curve(table, range(1, most + 1))
        areas.append(("area", None, *area_under(_ends(table), every, most, bootstrap)))
    return {
        "curve_points": _points(axis, fixed_curve(table, counts), [None], [None] * len(counts)),
        "curve_areas": _area_table(areas, len(table)),
        "sample_accuracies": _by_question(axis, table),
    }


def _adaptive(
    axis: pools.QuestionAxis, table: Floats, levels: Sequence[float], rewards: Floats, bootstrap: Bootstrap
) -> dict[str, pd.DataFrame]:
    most = table.shape[1]
    areas: list[_Area] = []
    for level, reward in zip(levels, rewards.T, strict=True):
        if most > 1:
            swept = adaptive_curve(table, reward, SWEPT_TARGETS)
            areas.append(("area", level, *area_under(_ends(table), swept, most, bootstrap)))
        risk = estimate(RiskCoverageArea(reward, table[:, -1], axis.question_ids), bootstrap)
        areas.append(("risk_coverage_area", level, risk.value, risk.low, risk.high))
    risks = risk_at(_THRESHOLDS, rewards, table[:, -1])
    return {
        "curve_points": _points(axis, adaptive_curve(table, rewards.T, TARGETS), levels, TARGETS),
        "curve_areas": _area_table(areas, len(table)),
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
    return fixed_curve(table, [1, table.shape[1]])


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
                **curve.part(chosen).columns("samples"),
                "questions": np.int32(chosen.sum()),
            }
        )
        for difficulty, chosen in axis.by_difficulty()
    ]
    return pd.concat(tables).sort_values("level", kind="stable", ignore_index=True)


def _area_table(rows: Sequence[_Area], questions: int) -> pd.DataFrame:
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
        pool = pools.pool_of(shard, context, trajectories, strategy.reads, parameters.level)
        swept = strategy.sweep(pool, setting)
        require(bool(swept), "its curve must have at least one point.")
        for answered in swept:
            check_answered(answered, pool.questions, setting)
    first = pool.correct.mean(axis=1)
    own = _best_curve(first, swept, setting.samples)
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


def _best_curve(first: Floats, swept: Sequence[Answered], most: int) -> Curve:
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
    return fixed_curve(best_of_each(scores, correct, most), curve_counts(most))


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
    return pd.DataFrame(
        {
            "point": np.arange(len(curve.cost), dtype=np.int32),
            **curve.columns("samples"),
            "order_error": max(errors, default=0.0),
            "questions": np.int32(curve.questions),
        }
    )


_BLOCK = 2**15


class RiskCoverageArea(Statistic):
    """The area under risk against coverage. Questions with equal rewards are answered in random order.

    All three arguments have the shape (questions,). Questions with higher rewards are answered first. NaN, a question
    that is too long for the PRM, is last. `accuracy` is the probability in [0, 1] that the question is answered
    correctly.
    """

    def __init__(self, rewards: ArrayLike, accuracy: ArrayLike, question_ids: ArrayLike) -> None:
        self.question_ids: NDArray[Any] = np.asarray(question_ids)
        self.rows = len(self.question_ids)
        ordered = _ordered(rewards)
        self.order = np.argsort(-ordered, kind="stable")
        self.risk = 1.0 - np.asarray(accuracy, dtype=np.float64)[self.order]
        # The end of each group of equal rewards.
        self.ends = np.flatnonzero(np.diff(ordered[self.order], append=-2.0))

    def values(self, weights: Floats) -> Floats:
        """Compute the area under each row of `weights`."""
        # A block of the resamples fits the processor's cache.
        blocks = np.array_split(weights, weights.size // _BLOCK + 1)
        return np.concatenate([self._areas(block.T[self.order]) for block in blocks])

    def _areas(self, drawn: Floats) -> Floats:
        """Return the areas of resamples, from how often they have each question: (questions, replicates)."""
        answered = np.cumsum(drawn, axis=0)[self.ends]
        wrong = np.cumsum(drawn * self.risk[:, None], axis=0)[self.ends]
        # Within a group of equal rewards the risk is the integral of (lost + m (c - before)) / c, which is
        # (lost - m before) log(answered / before) + m width. The last terms add up to all wrong answers. The first
        # group has no other term.
        before, lost = answered[:-1], wrong[:-1]
        width = np.diff(answered, axis=0)
        mean = np.diff(wrong, axis=0) / np.where(width > 0, width, 1.0)
        logs = np.log(np.where(answered > 0, answered, 1.0))
        parts = (lost - mean * before) * np.diff(logs, axis=0)
        areas: Floats = (parts.sum(axis=0) + wrong[-1]) / answered[-1]
        return areas


def risk_at(thresholds: ArrayLike, rewards: ArrayLike, accuracy: ArrayLike) -> dict[str, Floats]:
    """Return the coverage and the risk of answering the questions whose rewards are at least a threshold.

    The thresholds, of shape (thresholds,), are in [0, 1]. Rewards, of shape (questions, ...), such as those of each
    level, and accuracy, of shape (questions,), are as for :class:`RiskCoverageArea`.

    The result, of shape (..., thresholds), has coverage and risk, each with the ends of its 95% interval: coverage_low,
    coverage_high, and so on. The risk is that of the answered questions, and so is its interval. It is 0 if no question
    is answered. With fewer than two answered questions it has no interval (NaN).
    """
    answered = _ordered(rewards)[..., None] >= np.asarray(thresholds, dtype=np.float64)
    coverage_low, coverage_high = bounded_interval(answered.astype(np.float64))
    # The questions are the first axis of `answered`, and the last one of its transpose.
    wrong = np.broadcast_to(1.0 - np.asarray(accuracy, dtype=np.float64), answered.T.shape).T
    risk_low, risk_high = bounded_interval(wrong, counted=answered)
    return {
        "coverage": answered.mean(axis=0),
        "coverage_low": coverage_low,
        "coverage_high": coverage_high,
        "risk": np.where(answered, wrong, 0.0).sum(axis=0) / np.maximum(answered.sum(axis=0), 1),
        "risk_low": risk_low,
        "risk_high": risk_high,
    }


def _ordered(rewards: ArrayLike) -> Floats:
    """Return rewards in which NaN is replaced by a value below all others."""
    return np.nan_to_num(np.asarray(rewards, dtype=np.float64), nan=-1.0)


TARGETS = tuple(float(-np.expm1(-x)) for x in (0.125, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0))
"""The eight values of C in the paper's ablation: log(1 - C) from -0.125 to -5."""


def fixed_curve(table: Floats, counts: Sequence[int] | Ints) -> Curve:
    """Return the curve of best-of-n with the same n for every question, with a point for each n in [1, N].

    `table` is ``best_of_each(scores, correct, N)``, of shape (questions, N).
    """
    samples = np.tile(np.asarray(counts, dtype=np.int64), (len(table), 1))
    return _curve(table, samples, known_interval)


def adaptive_curve(table: Floats, rewards: ArrayLike, targets: Sequence[float]) -> Curve:
    """Return the curve of best-of-n + IAS, with a point for every target probability C in (0, 1).

    `table` is ``best_of_each(scores, correct, N)``, of shape (questions, N), which is the same for all calibrators and
    levels. `rewards` are the calibrated rewards of the bare questions: of shape (questions,) for one setting (a
    calibrator and a level), or (settings, questions) for several. The points of the first setting are in the order of
    `targets`, then come those of the next setting.
    """
    settings = np.atleast_2d(np.asarray(rewards, dtype=np.float64)).T
    questions, most = table.shape
    samples = adaptive_samples(settings[..., None], targets, most)
    return _curve(table, samples.reshape(questions, -1), partial(bounded_interval, upper=float(most)))


def area_under(ends: Curve, points: Curve, maximum: int, bootstrap: Bootstrap) -> tuple[float, float, float]:
    """Return the area under the curve through `points` and its two `ends`, and its 95% interval.

    `ends` is ``fixed_curve(table, [1, N])``, and `points` has those of one setting, in any order. A single question has
    no interval (NaN). Raises a ValueError if N is below 2, because there is no range of budgets.
    """
    if maximum < 2:
        raise ValueError(f"An area needs budgets from 1 to N with N of at least 2. Got N = {maximum}.")
    curve = ends.joined(points)
    (value,) = _areas(curve.cost[None], curve.accuracy[None], maximum)
    if curve.questions < 2:
        return float(value), float("nan"), float("nan")
    replicates = _areas(*curve.replicates(bootstrap), maximum)
    return float(value), *percentile_interval(replicates, curve.questions)


def _curve(table: Floats, samples: NDArray[Any], cost_rule: IntervalRule) -> Curve:
    accuracy = np.take_along_axis(table, samples - 1, axis=1)
    return Curve(samples.astype(np.float64), accuracy, cost_rule)


def _areas(samples: Floats, accuracy: Floats, maximum: int) -> Floats:
    """Return the areas of curves with points in any order: (curves, points) gives (curves,)."""
    # Sort by cost, and by accuracy if costs are equal, so that the value does not depend on the given order.
    order = np.lexsort((accuracy, samples), axis=-1)
    cost = np.take_along_axis(samples, order, axis=-1)
    gain = np.take_along_axis(accuracy, order, axis=-1)
    return league.area_of(cost, gain, maximum)
