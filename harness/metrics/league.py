"""Strategies at equal cost: numbers of a whole curve of accuracy against samples, with the values of the questions.

A strategy has a point for each of its variants. Between two points, both variants are mixed: random questions are run
with one variant and the rest with the other, so accuracy is linear in the mean number of samples. Every curve begins
with one sample of each question (pass@1), which all strategies can do. Beyond its largest budget, a strategy draws no
more samples, and its accuracy stays the same.

The points are ordered by their mean samples. No point is chosen by its accuracy on the measured questions, so a curve
also shows where more samples make a strategy worse.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from prmcal.arrays import Floats
from prmcal.db.statistics import intervals
from prmcal.db.statistics.bootstrap import LinearisedStatistic, Statistic
from prmcal.db.statistics.budgets import Curve
from prmcal.remembered import reuse_last
from prmcal.resamples import weighted_totals

Means = tuple[Floats, Floats]
"""Mean costs and accuracies of a curve, each of shape (replicates, points)."""

OneCurve = tuple[Floats, Floats]
"""Mean costs and accuracies of a curve, each of shape (points,)."""

Slopes = tuple[Floats, Floats]
"""Derivatives of a number by the mean cost and by the mean accuracy of each point, each of shape (points,)."""

_NARROW = 1e-6
_USUAL_SAVING = -0.5, 0.5
"""The range of the saving of one question, usually."""


def accuracy_at(costs: Floats, accuracies: Floats, budget: ArrayLike) -> Floats:
    """Return the accuracy of curves at a budget, of shape (curves,).

    `costs`, the mean samples, ascend along each curve. The mean costs and accuracies have the shape (curves, points).
    The budget, of shape () or (curves,), is in mean samples, and not below the first point.
    """
    budgets = np.broadcast_to(np.asarray(budget, dtype=np.float64), len(costs))
    upper = np.clip((costs <= budgets[:, None]).sum(axis=1), 1, costs.shape[1] - 1)
    rows = np.arange(len(costs))
    below, width = costs[rows, upper - 1], costs[rows, upper] - costs[rows, upper - 1]
    share = np.clip(np.divide(budgets - below, width, out=np.ones_like(below), where=width > 0), 0.0, 1.0)
    return np.asarray((1 - share) * accuracies[rows, upper - 1] + share * accuracies[rows, upper])


def _accuracy_slopes(cost: Floats, accuracy: Floats, budget: float) -> Slopes:
    """Return the derivatives of :func:`accuracy_at` for one curve: by the cost and by the accuracy of each point."""
    by_cost, by_accuracy = np.zeros(cost.shape), np.zeros(cost.shape)
    upper = min(max(int((cost <= budget).sum()), 1), len(cost) - 1)
    width = cost[upper] - cost[upper - 1]
    share = min((budget - cost[upper - 1]) / width, 1.0) if width > 0 else 1.0
    by_accuracy[upper - 1], by_accuracy[upper] = 1 - share, share
    if 0 < share < 1:
        slope = (accuracy[upper] - accuracy[upper - 1]) / width
        by_cost[upper - 1], by_cost[upper] = -slope * (1 - share), -slope * share
    return by_cost, by_accuracy


def area_of(costs: Floats, accuracies: Floats, maximum: int) -> Floats:
    """Return the mean accuracy over budgets from 1 to N samples, where every doubling has the same weight.

    The curves, of shape (curves, points), begin at 1 and do not exceed N, which is at least 2. Costs ascend. The
    result, of shape (curves,), is 1 / log N times the integral of the accuracy over the logarithm of the budget. The
    area is exact, since accuracy is linear between points.
    """
    left, right = costs[:, :-1], costs[:, 1:]
    # The exact integral of a narrow part would be a difference of two very large numbers.
    wide = right > left * (1 + _NARROW)
    slope = np.divide(np.diff(accuracies, axis=1), right - left, out=np.zeros_like(left), where=wide)
    logs = np.log(np.maximum(right / left, 1.0))
    exact = (accuracies[:, :-1] - slope * left) * logs + slope * (right - left)
    middle = (accuracies[:, :-1] + accuracies[:, 1:]) / 2 * logs
    end = accuracies[:, -1] * np.log(np.maximum(maximum / costs[:, -1], 1.0))
    areas: Floats = (np.where(wide, exact, middle).sum(axis=1) + end) / np.log(maximum)
    return areas


def _area_slopes(cost: Floats, accuracy: Floats, maximum: int) -> Slopes:
    """Return the derivatives of :func:`area_of` for one curve: by the cost and by the accuracy of each point."""
    left, right, low, high = cost[:-1], cost[1:], accuracy[:-1], accuracy[1:]
    width, wide = right - left, right > left * (1 + _NARROW)
    logs = np.log1p(width / left)
    slope = np.divide(high - low, width, out=np.zeros_like(width), where=wide)
    mean_log = np.divide(left * logs, width, out=np.zeros_like(width), where=wide)
    middle = (low + high) / 2
    on_line = low - slope * left  # The accuracy that the line would have at no cost.
    by_cost, by_accuracy = np.zeros(cost.shape), np.zeros(cost.shape)
    by_cost[:-1] += np.where(wide, -slope * (logs + mean_log) - on_line / left, -middle / left)
    by_cost[1:] += np.where(wide, slope * mean_log + on_line / right, middle / right)
    by_accuracy[:-1] += np.where(wide, logs + mean_log - 1, logs / 2)
    by_accuracy[1:] += np.where(wide, 1 - mean_log, logs / 2)
    if cost[-1] < maximum:
        by_accuracy[-1] += np.log(maximum / cost[-1])
        by_cost[-1] -= accuracy[-1] / cost[-1]
    return by_cost / np.log(maximum), by_accuracy / np.log(maximum)


def samples_to(costs: Floats, accuracies: Floats, wanted_accuracy: Floats, maximum: int) -> Floats:
    """Return the smallest budget at which each curve reaches an accuracy; N if it never does.

    The curves have the shape (curves, points) and ascending costs. The wanted accuracies and the result have the shape
    (curves,).
    """
    reached = accuracies >= wanted_accuracy[:, None] - 1e-12
    first_point = np.argmax(reached, axis=1)
    rows = np.arange(len(costs))
    previous = np.maximum(first_point - 1, 0)
    low, high = accuracies[rows, previous], accuracies[rows, first_point]
    rise = np.divide(wanted_accuracy - low, high - low, out=np.ones_like(low), where=high > low)
    cost = costs[rows, previous] + np.clip(rise, 0.0, 1.0) * (costs[rows, first_point] - costs[rows, previous])
    cost = np.where(first_point == 0, costs[:, 0], cost)
    return np.where(reached.any(axis=1), cost, float(maximum))


@lru_cache(maxsize=4)  # All numbers of a curve need the same means.
def _means_of(curve: Curve) -> Callable[[Floats], Means]:
    """Return a function from weights to the mean costs, ascending, and accuracies: both (replicates, points)."""
    points = np.stack([curve.costs, curve.accuracies], axis=1)

    def means(weights: Floats) -> Means:
        mean_points = weighted_totals(weights, points) / weights.sum(axis=1)[:, None, None]
        cost, accuracy = mean_points[:, 0], mean_points[:, 1]
        order = np.argsort(cost, axis=1, kind="stable")
        return np.take_along_axis(cost, order, 1), np.take_along_axis(accuracy, order, 1)

    return reuse_last(means)


def _sorted(curve: Curve) -> tuple[OneCurve, OneCurve]:
    """Return mean costs and accuracies by ascending cost, and the distances of each question from these means."""
    order = np.argsort(curve.cost, kind="stable")
    means = curve.cost[order], curve.accuracy[order]
    return means, (curve.costs[:, order] - means[0], curve.accuracies[:, order] - means[1])


class CurveStatistic(Statistic):
    """A number of one or several curves over the same questions. Each curve has pass@1 as its first point.

    `of` computes the quantity, of shape (replicates,), from the mean costs and accuracies of each curve, of shape
    (replicates, points). Its interval has percentiles of the bootstrap: the number is not smooth where a curve is flat.
    """

    def __init__(self, question_ids: ArrayLike, of: Callable[[Sequence[Means]], Floats], *curves: Curve) -> None:
        self.question_ids = np.asarray(question_ids)
        self.of, self.curves = of, curves
        self.rows = len(self.question_ids)

    def values(self, weights: Floats) -> Floats:
        """Compute the number under each row of `weights`."""
        return self.of([_means_of(curve)(weights) for curve in self.curves])

    def interval(self, replicates: Floats) -> tuple[float, float]:
        """Return percentiles of the replicates, widened to contain the number."""
        low, high = Statistic.interval(self, replicates)
        return min(low, self.value()), max(high, self.value())


class SmoothStatistic(LinearisedStatistic, CurveStatistic):
    """A number of curves with the interval of a mean of one value for each question.

    `slopes` returns the derivatives of the number by the mean cost and by the mean accuracy of each point. The costs,
    which ascend, and the accuracies of each curve have the shape (points,).
    """

    def __init__(
        self,
        question_ids: ArrayLike,
        of: Callable[[Sequence[Means]], Floats],
        slopes: Callable[[Sequence[OneCurve]], Sequence[Slopes]],
        *curves: Curve,
        rule: intervals.IntervalRule = intervals.skewed_interval,
    ) -> None:
        CurveStatistic.__init__(self, question_ids, of, *curves)
        self.slopes, self.rule = slopes, rule

    def linearised(self) -> Floats:
        """Return one value for each question, of shape (questions,), whose mean is the number."""
        values = np.full(len(self.question_ids), self.value())
        means, deviations = zip(*map(_sorted, self.curves), strict=True)
        for curve_deviations, slopes in zip(deviations, self.slopes(means), strict=True):
            for deviation, slope in zip(curve_deviations, slopes, strict=True):
                values += (deviation * slope).sum(axis=1)
        return values


def accuracy_at_budget(question_ids: ArrayLike, curve: Curve, budget: float) -> SmoothStatistic:
    """Return the accuracy at a mean number of samples; see :func:`accuracy_at`."""
    return SmoothStatistic(
        question_ids,
        lambda curves: accuracy_at(*curves[0], budget),
        lambda curves: [_accuracy_slopes(*curves[0], budget)],
        curve,
        rule=intervals.bounded_interval,
    )


def area(question_ids: ArrayLike, curve: Curve, maximum: int) -> SmoothStatistic:
    """Return the mean accuracy over budgets from 1 to N samples; see :func:`area_of`."""
    return SmoothStatistic(
        question_ids,
        lambda curves: area_of(*curves[0], maximum),
        lambda curves: [_area_slopes(*curves[0], maximum)],
        curve,
        rule=intervals.bounded_interval,
    )


def area_gain(question_ids: ArrayLike, curve: Curve, fixed: Curve, maximum: int) -> SmoothStatistic:
    """Return the area under a curve minus the area under another one, such as the curve of a fixed n."""

    def slopes(curves: Sequence[OneCurve]) -> Sequence[Slopes]:
        curve_slopes, (by_cost, by_accuracy) = (_area_slopes(*means, maximum) for means in curves)
        return [curve_slopes, (-by_cost, -by_accuracy)]

    return SmoothStatistic(
        question_ids,
        lambda curves: area_of(*curves[0], maximum) - area_of(*curves[1], maximum),
        slopes,
        curve,
        fixed,
        rule=intervals.gain_interval,
    )


def samples_to_share(question_ids: ArrayLike, curve: Curve, fixed: Curve, maximum: int, share: float) -> CurveStatistic:
    """Return the smallest budget with a share of the accuracy of a fixed N; see :func:`samples_to`."""
    return CurveStatistic(
        question_ids, lambda curves: samples_to(*curves[0], share * curves[1][1][:, -1], maximum), curve, fixed
    )


def saving(question_ids: ArrayLike, curve: Curve, fixed: Curve, maximum: int, share: float) -> CurveStatistic:
    """Return the share of samples that is saved for the same accuracy, compared with a fixed number of samples.

    It is 1 - b / b_fixed for the smallest budgets b and b_fixed with a share of the accuracy of a fixed N. It is below
    0 if the strategy needs more samples than a fixed number does.
    """

    def saved(curves: Sequence[Means]) -> Floats:
        budget, fixed_budget = (samples_to(*means, share * curves[1][1][:, -1], maximum) for means in curves)
        return 1 - budget / fixed_budget

    return _Saving(question_ids, saved, curve, fixed)


class _Saving(CurveStatistic):
    """A saving, whose interval allows for questions that were not drawn unless the samples are fixed."""

    def interval(self, replicates: Floats) -> tuple[float, float]:
        low, high = super().interval(replicates)
        if self.curves[0].cost_rule is intervals.exact_interval:
            return low, high
        lowest, highest = intervals.cautious_interval(np.zeros(self.rows), *_USUAL_SAVING)
        return low + float(lowest), high + float(highest)
