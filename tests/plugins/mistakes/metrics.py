"""Metrics of which each makes one mistake. The test says how `prmcal check` explains it."""

# mypy: ignore-errors

import numpy as np

from prmcal import Metric, QuestionRatio, UnderWeights, metric


class Sound(Metric):
    """Mean absolute error."""

    better = "lower"

    def measure(self, rows):
        return np.abs(rows.reward - rows.success_rate)


@metric("no mistake")
class NoMistake(Sound):
    """Mean absolute error."""


@metric("mean of the prefixes")
class MeanOfThePrefixes(Sound):
    """Mean absolute error."""

    def measure(self, rows):
        return np.abs(rows.reward - rows.success_rate).mean()


@metric("unknown direction")
class UnknownDirection(Sound):
    """Mean absolute error."""

    better = "smaller"


@metric("no words")
class NoWords(Metric):
    def measure(self, rows):
        return np.abs(rows.reward - rows.success_rate)


@metric("random")
class Random(Sound):
    """Mean error with noise."""

    random = np.random.default_rng()

    def measure(self, rows):
        return rows.reward + self.random.normal(size=len(rows.reward))


@metric("first rows of ties")
class FirstRowsOfTies(Sound):
    """Success rate of the prefix with the largest reward of each question."""

    def measure(self, rows):
        order = np.lexsort((-rows.reward, rows.question_index))
        first = order[np.searchsorted(rows.question_index[order], np.arange(len(rows.question_ids)))]
        return QuestionRatio(rows.success_rate[first], np.ones(len(first)))


@metric("sorts in place")
class SortsInPlace(Sound):
    """Spread of the rewards."""

    def measure(self, rows):
        rows.reward.sort()
        return np.full(len(rows.reward), np.ptp(rows.reward))


@metric("logarithm of 0")
class LogarithmOf0(Sound):
    """Log loss."""

    def measure(self, rows):
        with np.errstate(divide="ignore"):
            return -np.log(np.maximum(rows.reward, 1e-9 * (rows.success_rate > 0)))


@metric("ignores weights")
class IgnoresWeights(Sound):
    """Largest error of a question."""

    def measure(self, rows):
        errors = rows.totals(np.abs(rows.reward - rows.success_rate))
        return UnderWeights(lambda weights: np.full(len(weights), errors.sum()))


@metric("one resample")
class OneResample(Sound):
    """Mean error."""

    def measure(self, rows):
        errors = rows.totals(rows.reward - rows.success_rate)
        return UnderWeights(lambda weights: np.array((weights * errors).sum()))


@metric("sums of rows")
class SumsOfRows(Sound):
    """Mean error."""

    def measure(self, rows):
        return QuestionRatio(rows.reward - rows.success_rate, np.ones(len(rows.reward)))
