"""Metrics of which each makes one mistake, with the check that finds it and what it says."""

# mypy: ignore-errors

import numpy as np

from prmcal import AbsoluteSum, Metric, QuestionRatio
from tests.registry.conformance.mistakes import mistake


class Sound(Metric):
    """Mean absolute error."""

    better = "lower"

    def measure(self, rows):
        return np.abs(rows.reward - rows.success_rate)


class NoMistake(Sound):
    """Mean absolute error."""


@mistake("it measures prefixes", r"measure\(\) must return an array.* Got float64")
class MeanOfThePrefixes(Sound):
    """Mean absolute error."""

    def measure(self, rows):
        return np.abs(rows.reward - rows.success_rate).mean()


@mistake("words", "'better' must be one of 'lower', 'higher'.* Got 'smaller'")
class UnknownDirection(Sound):
    """Mean absolute error."""

    better = "smaller"


@mistake("words", "needs a 'description' or a docstring")
class NoWords(Metric):
    def measure(self, rows):
        return np.abs(rows.reward - rows.success_rate)


@mistake("the order of the prefixes does not matter", "Treat equal rewards alike")
class FirstRowsOfTies(Sound):
    """Success rate of the prefix with the largest reward of each question."""

    def measure(self, rows):
        order = np.lexsort((-rows.reward, rows.question_index))
        first = order[np.searchsorted(rows.question_index[order], np.arange(len(rows.question_ids)))]
        return QuestionRatio(rows.success_rate[first], np.ones(len(first)))


@mistake("it measures prefixes", r"read-only\. See line \d+ of metrics\.py")
class SortsInPlace(Sound):
    """Spread of the rewards."""

    def measure(self, rows):
        rows.reward.sort()
        return np.full(len(rows.reward), np.ptp(rows.reward))


@mistake("extreme prefixes", "must be finite")
class LogarithmOf0(Sound):
    """Log loss."""

    def measure(self, rows):
        with np.errstate(divide="ignore"):
            return -np.log(np.maximum(rows.reward, 1e-9 * (rows.success_rate > 0)))


@mistake("it measures prefixes", "an array of shape .*resamples")
class OneResample(Sound):
    """Mean error."""

    def measure(self, rows):
        errors = rows.totals(rows.reward - rows.success_rate)
        return AbsoluteSum(lambda weights: np.array((weights * errors).sum()))


@mistake("it measures prefixes", r"Write rows\.totals\(\.\.\.\)")
class SumsOfRows(Sound):
    """Mean error."""

    def measure(self, rows):
        return QuestionRatio(rows.reward - rows.success_rate, np.ones(len(rows.reward)))
