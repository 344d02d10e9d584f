"""Statistics of questions, with their 95% intervals and bootstrap replicates.

Prefixes of one question are not independent, so whole questions are resampled. A replicate is a row of weights:
how often each question was drawn. A statistic is a function of such weights, so all replicates are computed at once
from the sums over the rows of each question.
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prmcal.arrays import Floats
from prmcal.db.statistics.intervals import Estimate, IntervalRule, percentile_interval, skewed_interval
from prmcal.resamples import weighted_totals


class Statistic(ABC):
    """A number computed from questions, under any weights of the questions."""

    question_ids: NDArray[Any]
    """The questions, in the order of the columns of the weights. Of shape (questions,)."""
    rows: int
    """Number of observations behind the statistic."""

    @abstractmethod
    def values(self, weights: Floats) -> Floats:
        """Compute the statistic under each row of `weights`: (replicates, questions) gives (replicates,)."""

    def value(self) -> float:
        """Compute the statistic with every question counted once."""
        return float(self.values(counted_once(len(self.question_ids)))[0])

    def interval(self, replicates: Floats) -> tuple[float, float]:
        """Return the ends of the 95% interval: percentiles of the replicates, unless a better rule is known.

        `replicates`, of shape (replicates,), are values under the weights of a bootstrap. There are at least 2
        questions.
        """
        return percentile_interval(replicates, len(self.question_ids))


class LinearisedStatistic(Statistic):
    """A statistic with the interval of a mean of one value for each question."""

    rule: IntervalRule
    """The rule for the interval."""

    @abstractmethod
    def linearised(self) -> Floats:
        """Return one value for each question, of shape (questions,), whose mean is the statistic.

        Under other weights of the questions, their weighted mean is the statistic with these weights, to first order.
        """

    def interval(self, replicates: Floats | None = None) -> tuple[float, float]:
        """Return the ends of the 95% interval by the rule of the statistic, which needs no replicates."""
        return intervals([self])[self]


class Ratio(LinearisedStatistic):
    """The sum of S_q over the questions q, divided by the sum of c_q.

    `sums` and `counts`, of shape (questions,), are S_q and c_q, such as the sum of a quantity over the rows of a
    question and the number of these rows. The counts are not negative, and their sum is positive. The questions are all
    different. `interval` is the rule for the interval of the mean of the linearised values (Cochran, 1977, "Sampling
    Techniques", section 6.3).

    Raises a ValueError if the shapes differ or a value is not finite.
    """

    def __init__(
        self, sums: ArrayLike, counts: ArrayLike, question_ids: ArrayLike, interval: IntervalRule = skewed_interval
    ) -> None:
        self.question_ids = np.asarray(question_ids)
        self._sums = np.asarray(sums, dtype=np.float64)
        self._counts = np.asarray(counts, dtype=np.float64)
        self.rule = interval
        self.rows = len(self.question_ids)
        shapes = {array.shape for array in (self._sums, self._counts, self.question_ids)}
        if shapes != {(self.rows,)}:
            raise ValueError(f"Each question needs one sum and one count. Got the shapes {sorted(shapes)}.")
        if not (np.isfinite(self._sums).all() and np.isfinite(self._counts).all()):
            raise ValueError("Only finite values can be averaged. Leave out rows without a value.")

    def values(self, weights: Floats) -> Floats:
        """Compute the ratio under each row of `weights`."""
        totals = weighted_totals(weights, np.stack([self._sums, self._counts], axis=1))
        return totals[:, 0] / totals[:, 1]

    def linearised(self) -> Floats:
        """Return x_q = r + n (S_q - r c_q) / sum(c) for the ratio r and n questions; S_q / c_q if all c_q are equal."""
        total = self._counts.sum()
        ratio = self._sums.sum() / total
        if np.ptp(self._counts) == 0:
            return self._sums / self._counts  # Without rounding errors.
        scale = len(self.question_ids) / total
        return np.asarray(ratio + scale * (self._sums - ratio * self._counts), dtype=np.float64)


class QuestionMean(Ratio):
    """Mean of one value per question, such as accuracy or the budget ratio. By default, the questions are 0, 1, 2, ...

    Raise ValueError if there are no questions, a question occurs twice, the shapes differ or a value is not finite.
    """

    def __init__(
        self, quantity: ArrayLike, question_ids: ArrayLike | None = None, interval: IntervalRule = skewed_interval
    ) -> None:
        values = np.asarray(quantity, dtype=np.float64)
        ids = np.arange(values.size) if question_ids is None else np.asarray(question_ids)
        if values.shape != ids.shape or values.ndim != 1 or not values.size:
            raise ValueError(
                f"Each question needs one value. Give at least one. Got the shapes {values.shape} and {ids.shape}."
            )
        if len(np.unique(ids)) < len(ids):
            raise ValueError("A question occurs twice. Give one value per question.")
        order = np.argsort(ids, kind="stable")
        super().__init__(values[order], np.ones(len(values)), ids[order], interval)

    def value(self) -> float:
        """Compute the mean of all questions, which, like that of a resample, does not depend on their order."""
        return math.fsum(self._sums) / self.rows


@dataclass(frozen=True)
class Bootstrap:
    """The options of resampling questions.

    The resamples depend on the seed and the number of questions only, so statistics of the same questions are paired.
    """

    replicates: int = 1000
    """Number of resamples, at least 1."""
    seed: int = 0
    """Seed of the random generator, at least 0."""

    def weights(self, questions: int) -> Floats:
        """Return how often each question is drawn: (replicates, questions). Each row sums to `questions`."""
        return _weights(self.seed, self.replicates, questions)


@lru_cache(maxsize=8)  # A job needs the weights of the same few sets of questions many times.
def _weights(seed: int, replicates: int, questions: int) -> Floats:
    shares = np.full(questions, 1 / questions)
    counts = np.random.default_rng(seed).multinomial(questions, shares, size=replicates).astype(np.float64)
    counts.setflags(write=False)
    return counts


@lru_cache(maxsize=8)
def counted_once(questions: int) -> Floats:
    """Return weights of one for all questions, of shape (1, questions). They are read-only."""
    ones = np.ones((1, questions))
    ones.setflags(write=False)
    return ones


@dataclass(frozen=True, eq=False)
class Resampled(Estimate):
    """The value of a statistic with its 95% interval and its replicates."""

    rows: int
    questions: int
    """Number of observations and of questions behind the value."""
    replicates: Floats
    """Values of the resamples; empty for a single question, or if none were drawn. Of shape (replicates,), float64."""


Interval = tuple[float, float]
"""The ends of an interval."""


def intervals(statistics: Iterable[Statistic]) -> dict[Statistic, Interval]:
    """Return the ends of the 95% intervals of the statistics that are linearised.

    Intervals by the same rule are computed at once, which takes less time.
    """
    alike: dict[tuple[IntervalRule, int], list[LinearisedStatistic]] = defaultdict(list)
    for statistic in dict.fromkeys(statistics):
        if isinstance(statistic, LinearisedStatistic):
            alike[statistic.rule, len(statistic.question_ids)].append(statistic)
    ends: dict[Statistic, Interval] = {}
    for (rule, _), group in alike.items():
        lows, highs = rule(np.stack([statistic.linearised() for statistic in group], axis=1))
        for statistic, low, high in zip(group, lows.tolist(), highs.tolist(), strict=True):
            value = statistic.value()  # The mean of the linearised values can differ from it by rounding errors.
            ends[statistic] = min(low, value), max(high, value)
    return ends


def estimate(
    statistic: Statistic, bootstrap: Bootstrap, compared: bool = True, ends: Interval | None = None
) -> Resampled:
    """Compute a statistic, its 95% interval by its own rule, and its replicates by resampling questions.

    `ends` are the ends of the interval, if they were computed before. If the replicates are not `compared`, they are
    drawn only if the interval needs them.
    """
    questions = len(statistic.question_ids)
    low, high, replicates = float("nan"), float("nan"), np.empty(0)
    if questions > 1:
        if compared or not isinstance(statistic, LinearisedStatistic):
            replicates = statistic.values(bootstrap.weights(questions))
        low, high = statistic.interval(replicates) if ends is None else ends
    return Resampled(statistic.value(), low, high, statistic.rows, questions, replicates)
