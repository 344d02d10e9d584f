"""Accuracy against cost: how samples are spent, a fixed n of equal cost, and the Pareto frontier."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from prmcal.arrays import Bools, Floats, Ints
from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, tail_of_resamples
from prmcal.resamples import weighted_totals

_SMALLEST_CHANCE = 1e-4
# The logarithms may give 2.0000000000000004 for 2; its ceiling must be 2.
_CEILING_TOLERANCE = 1e-9


def whole_samples_needed(probability: ArrayLike, target: float) -> Floats:
    """Return ceil(N_IAS(p, C)), at least 1: samples for a correct answer with probability C (Proposition 1).

    `probability` is the success probability p of one sample, in [0, 1]; it is clipped to [1e-4, 1 - 1e-4]. NaN gives
    NaN. `target` is C in (0, 1). The result has the shape of p, and whole numbers in float64.
    """
    p = np.clip(np.asarray(probability, dtype=np.float64), _SMALLEST_CHANCE, 1 - _SMALLEST_CHANCE)
    samples = np.log1p(-target) / np.log1p(-p)
    return np.asarray(np.maximum(np.ceil(samples * (1 - _CEILING_TOLERANCE)), 1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Curve:
    """Points of accuracy against cost.

    `costs` and `accuracies`, of shape (questions, points), have the cost of each question, counted in samples or in
    tokens, and its accuracy in [0, 1]. `cost_rule` is the rule for the intervals of the cost.
    """

    costs: Floats
    accuracies: Floats
    cost_rule: IntervalRule

    @property
    def questions(self) -> int:
        """The number of questions."""
        return len(self.costs)

    @cached_property
    def cost(self) -> Floats:
        """The mean cost of each point, of shape (points,)."""
        return np.asarray(self.costs.mean(axis=0), dtype=np.float64)

    @cached_property
    def accuracy(self) -> Floats:
        """The mean accuracy of each point, of shape (points,)."""
        return np.asarray(self.accuracies.mean(axis=0), dtype=np.float64)

    def columns(self, cost: str) -> dict[str, Floats]:
        """Return the mean cost and accuracy of each point, and the ends of their 95% intervals, by names of columns.

        `cost` is the name of the cost. Arrays have the shape (points,); the ends are NaN for a single question.
        """
        low, high = self.cost_rule(self.costs)
        accuracy_low, accuracy_high = bounded_interval(self.accuracies)
        costs = {cost: self.cost, f"{cost}_low": low, f"{cost}_high": high}
        return costs | {"accuracy": self.accuracy, "accuracy_low": accuracy_low, "accuracy_high": accuracy_high}

    def part(self, questions: Bools) -> "Curve":
        """Return the curve of some of the questions."""
        return Curve(self.costs[questions], self.accuracies[questions], self.cost_rule)


Verdict = Literal["gain", "no gain", "loss"]
"""The side of 0 on which the interval of a difference in accuracy lies: above 0, around 0, below 0."""

_TAIL = 0.025


def at_equal_cost(accuracy: Floats, samples: Ints) -> dict[str, Floats]:
    """Compare numbers of samples that differ between questions with a fixed n of the same mean cost.

    Parameters are as in :func:`equal_cost_values`, and the interval is Student's t interval of the mean of its values.
    The result has arrays of shape (points,): samples, the mean number per question; fixed, the accuracy of the fixed n
    of this cost; difference, low and high: accuracy minus the fixed n's accuracy, and its 95% interval, NaN for a
    single question.
    """
    questions = len(accuracy)
    values = equal_cost_values(accuracy, samples)
    mean = samples.mean(axis=0)
    fixed = _fixed_at(accuracy, mean)[0].mean(axis=0)
    difference = values.mean(axis=0)
    half = np.full(len(mean), np.nan)
    if questions > 1:
        half = -stdtrit(questions - 1, _TAIL) * values.std(axis=0, ddof=1) / np.sqrt(questions)
    ends = {"low": difference - half, "high": difference + half}
    return {"samples": mean, "fixed": fixed, "difference": difference, **ends}


def equal_cost_values(accuracy: Floats, samples: Ints) -> Floats:
    """Return one value for each question, whose mean is the difference in accuracy at equal cost.

    Question q has n_q samples and the accuracy a_q(n_q). The fixed n is the mean m of all n_q. Between two whole
    numbers, a_q is interpolated linearly: with probability m - floor(m) the question gets the larger one. The
    difference is D = mean of a_q(n_q) - a_q(m), paired over questions.

    An interval must treat m as an estimate from the same questions: with other questions, the fixed n would also
    differ. To first order, D is the mean of the values

        x_q = a_q(n_q) - a_q(m) - s (n_q - m),

    where s is the slope at m of the mean accuracy against n. The last term carries the error of the estimated cost into
    the interval (delta method). The mean of this term is 0, so it does not change D.

    `accuracy`, of shape (questions, N), is the expected accuracy of best-of-n for n from 1 to N. `samples` and the
    result have the shape (questions, points); n_q is in [1, N].
    """
    accuracies = np.take_along_axis(accuracy, samples - 1, axis=1)
    mean = np.asarray(samples.mean(axis=0), dtype=np.float64)
    of_fixed, slope = _fixed_at(accuracy, mean)
    return np.asarray(accuracies - of_fixed - slope * (samples - mean), dtype=np.float64)


def _fixed_at(accuracy: Floats, samples: Floats) -> tuple[Floats, Floats]:
    """Return the accuracy of best-of-n for each question and fixed n, which need not be whole, and the mean slope."""
    samples_of_all = accuracy.shape[1]
    below = np.clip(np.floor(samples).astype(np.int64), 1, max(samples_of_all - 1, 1))
    above = np.minimum(below + 1, samples_of_all)
    lower, upper = accuracy[:, below - 1], accuracy[:, above - 1]
    return lower + (samples - below) * (upper - lower), (upper - lower).mean(axis=0)


def half_widths_at_once(values: Floats) -> Floats:
    """Return the half widths of intervals that contain all means at once in 95% of cases, of shape (means,).

    They are for the best of several points that the same questions chose: its own interval ignores this choice. The
    largest of all distances from the means, in standard errors, is resampled (White, 2000, "A reality check for data
    snooping"). `values` has the shape (questions, means). With one question they are NaN.
    """
    questions = len(values)
    if questions < 2:
        return np.full(values.shape[1], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(questions)
    deviations = (values - values.mean(axis=0)) / np.where(error > 0, error, 1.0) / questions
    largest = np.abs(weighted_totals(Bootstrap().weights(questions), deviations)).max(axis=1)
    critical = float(np.quantile(largest, 1 - 2 * tail_of_resamples(questions, _TAIL)))
    return np.asarray(critical * error, dtype=np.float64)


def verdict(low: float, high: float) -> Verdict:
    """Return the verdict of the 95% interval of a difference."""
    return "gain" if low > 0 else "loss" if high < 0 else "no gain"


# With fewer questions, the smallest p value of the sign test is above .05.
_FEWEST = 6
_DIGITS = 9
_ROUNDING = 1e-12


def more_accurate(accuracies: Floats) -> Bools:
    """Return which points are significantly more accurate than which others.

    `accuracies` has the shape (questions, points), and the result (points, points): row i and column j are true if i is
    more accurate than j. The test is the paired t test over questions, two-sided at the level .05, without a correction
    for the number of pairs. All are False for fewer than 6 questions, since no pattern of so few signs is significant.
    """
    questions, points = accuracies.shape
    if questions < _FEWEST:
        return np.zeros((points, points), dtype=np.bool_)
    mean = accuracies.mean(axis=0)
    deviations = accuracies - mean
    products = deviations.T @ deviations / (questions - 1)
    variances = np.diag(products)
    variance = np.maximum(variances[:, None] + variances[None, :] - 2 * products, 0)
    difference = mean[:, None] - mean[None, :]
    enough = -stdtrit(questions - 1, _TAIL) * np.sqrt(variance / questions)
    return np.asarray(difference > np.maximum(enough, _ROUNDING), dtype=np.bool_)


def frontier(costs: ArrayLike, accuracy: ArrayLike, better: Bools) -> Bools:
    """Return which points are on the frontier, from the mean cost and the mean accuracy of each, of shape (points,).

    The points are read from the lowest cost to the highest, and at equal cost from the most accurate to the least. The
    first is on the frontier. Any other point is on the frontier if it is significantly more accurate (`better`, from
    :func:`more_accurate`) than all points that are on it already. So each step of the frontier is a real gain, and
    noise in the third digit adds no points. Points with the same cost and the same accuracy are on the frontier
    together.
    """
    cost = np.round(np.asarray(costs, dtype=np.float64), _DIGITS)
    gain = np.round(np.asarray(accuracy, dtype=np.float64), _DIGITS)
    on_frontier: list[int] = []
    for point in np.lexsort((-gain, cost)):
        twin = any(cost[point] == cost[other] and gain[point] == gain[other] for other in on_frontier)
        if twin or better[point, on_frontier].all():
            on_frontier.append(int(point))
    marks = np.zeros(len(cost), dtype=np.bool_)
    marks[on_frontier] = True
    return marks
