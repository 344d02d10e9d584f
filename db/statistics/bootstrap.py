"""95% intervals by bootstrap over questions.

Prefixes of one question are not independent, so whole questions are resampled. A replicate is a row of weights:
how often each question was drawn. A statistic is a function of such weights, so all replicates are computed at once
from the sums over the rows of each question.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

__all__ = [
    "Bootstrap",
    "Estimate",
    "QuestionMean",
    "RowMean",
    "Statistic",
    "estimate",
    "percentile_interval",
    "question_totals",
    "weighted_totals",
]

_TAIL = 0.025


class Statistic(ABC):
    """A number computed from questions, under any weights of the questions.

    Attributes
    ----------
    question_ids : ndarray of shape (questions,)
        The questions, in the order of the columns of the weights.
    rows : int
        Number of observations behind the statistic.
    """

    question_ids: NDArray[Any]
    rows: int

    @abstractmethod
    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the statistic under each row of `weights`: (replicates, questions) gives (replicates,)."""

    def value(self) -> float:
        """Compute the statistic with every question counted once."""
        return float(self.values(np.ones((1, len(self.question_ids))))[0])


class RowMean(Statistic):
    """Mean of a quantity over rows. All rows have the same weight.

    Parameters
    ----------
    quantity : array-like of shape (rows,)
        The values to average.
    question : array-like of shape (rows,)
        The question of each row.

    Raises
    ------
    ValueError
        If there are no rows, the shapes differ or a value is not finite.
    """

    def __init__(self, quantity: ArrayLike, question: ArrayLike) -> None:
        values = np.asarray(quantity, dtype=np.float64)
        identifiers = np.asarray(question)
        if values.shape != identifiers.shape or values.ndim != 1:
            raise ValueError(
                f"Each row needs one value and one question. Got the shapes {values.shape} and {identifiers.shape}."
            )
        if not values.size:
            raise ValueError("There are no rows to average. Measure at least one question.")
        if not np.all(np.isfinite(values)):
            raise ValueError("Only finite values can be averaged. Leave out rows without a value.")
        self.question_ids, index = np.unique(identifiers, return_inverse=True)
        self.rows = len(values)
        questions = len(self.question_ids)
        self._sums = question_totals(index, values, questions)
        self._counts = question_totals(index, np.ones(self.rows), questions)

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the mean under each row of `weights`."""
        return weighted_totals(weights, self._sums) / weighted_totals(weights, self._counts)


class QuestionMean(RowMean):
    """Mean of one value per question, such as accuracy or the budget ratio.

    Parameters
    ----------
    quantity : array-like of shape (questions,)
        One value per question.
    question_ids : array-like of shape (questions,), optional
        The questions, all different. Default: 0, 1, 2, ...

    Raises
    ------
    ValueError
        If there are no questions, a question occurs twice, the shapes differ or a value is not finite.
    """

    def __init__(self, quantity: ArrayLike, question_ids: ArrayLike | None = None) -> None:
        values = np.asarray(quantity, dtype=np.float64)
        super().__init__(values, np.arange(values.size) if question_ids is None else question_ids)
        if len(self.question_ids) != self.rows:
            raise ValueError("A question occurs twice. Give one value per question.")


@dataclass(frozen=True)
class Bootstrap:
    """How questions are resampled.

    The resamples depend on the seed and the number of questions only, so statistics of the same questions are paired.

    Attributes
    ----------
    replicates : int
        Number of resamples, at least 1.
    seed : int
        Seed of the random generator, at least 0.
    """

    replicates: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.replicates < 1:
            raise ValueError(f"'replicates' must be an int in [1, inf). Got {self.replicates} instead.")

    def weights(self, questions: int) -> NDArray[np.float64]:
        """Return how often each question is drawn: (replicates, questions). Each row sums to `questions`."""
        return _weights(self.seed, self.replicates, questions)


@lru_cache(maxsize=8)  # A job needs the weights of the same few sets of questions many times.
def _weights(seed: int, replicates: int, questions: int) -> NDArray[np.float64]:
    shares = np.full(questions, 1 / questions)
    drawn = np.random.default_rng(seed).multinomial(questions, shares, size=replicates).astype(np.float64)
    drawn.setflags(write=False)
    return drawn


@dataclass(frozen=True, eq=False)
class Estimate:
    """The value of a statistic with its 95% interval.

    For statistics of absolute values (ECE, AdaptiveCE, AverageCE), noise increases the value. Their replicates, and
    so their interval, tend to lie above the value.

    Attributes
    ----------
    value : float
    low, high : float
        Ends of the interval. They are NaN for a single question, and equal if all questions have the same value.
    rows, questions : int
        Number of observations and of questions behind the value.
    replicates : ndarray of shape (replicates,), float64
        Values of the resamples; empty for a single question.
    """

    value: float
    low: float
    high: float
    rows: int
    questions: int
    replicates: NDArray[np.float64]


def estimate(statistic: Statistic, bootstrap: Bootstrap) -> Estimate:
    """Compute a statistic with its 95% interval by bootstrap over questions."""
    questions = len(statistic.question_ids)
    low, high, replicates = float("nan"), float("nan"), np.empty(0)
    if questions > 1:
        replicates = statistic.values(bootstrap.weights(questions))
        low, high = percentile_interval(replicates, questions)
    return Estimate(statistic.value(), low, high, statistic.rows, questions, replicates)


def percentile_interval(replicates: NDArray[np.float64], questions: int) -> tuple[float, float]:
    """Return the ends of the 95% interval, which are percentiles of the replicates.

    For many questions they are the 2.5th and the 97.5th percentile. For few questions, plain percentile intervals are
    too narrow: the spread of the resamples is too small by the factor sqrt(1 - 1/questions), and their tails are
    normal instead of Student's. The percentiles are therefore moved outwards as far as both effects require for a
    mean ("expanded percentile interval", Hesterberg, 2015). In simulations of two metrics with 20 questions, this
    raised the coverage from 90.5% and 92.8% to 93.4% and 95.0%.

    Parameters
    ----------
    replicates : ndarray of shape (replicates,)
        Values of the resamples.
    questions : int
        Number of resampled questions, at least 2.
    """
    outermost = stdtrit(questions - 1, _TAIL) * np.sqrt(questions / (questions - 1))
    tail = float(ndtr(outermost))
    low, high = np.quantile(replicates, (tail, 1 - tail))
    return float(low), float(high)


def question_totals(
    index: NDArray[np.integer[Any]], quantity: NDArray[np.float64], questions: int
) -> NDArray[np.float64]:
    """Sum a quantity of shape (rows,) over the rows of each question: shape (questions,)."""
    return np.bincount(index, weights=quantity, minlength=questions).astype(np.float64)


def weighted_totals(weights: NDArray[np.float64], totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute totals under each replicate: (replicates, questions) by (questions, ...) gives (replicates, ...)."""
    # Not `@`: BLAS may change the order of summation with the number of threads, and results must not change.
    product: NDArray[np.float64] = np.einsum("rq,q...->r...", weights, totals)
    return product
