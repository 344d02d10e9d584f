"""Whether two cells differ: paired comparisons over the same questions, and their adjustment for many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.metrics.bootstrap import Bootstrap, Metric, percentile_interval

__all__ = ["Comparison", "Replicated", "compare", "compare_replicates", "holm"]


@dataclass(frozen=True)
class Comparison:
    """The difference first - second between two cells.

    Attributes
    ----------
    difference, low, high : float
        With its 95% interval; the interval is NaN where there is one question only.
    p_value : float
        Two-sided, in (0, 1]; NaN where the interval is. It cannot be below 2 / (replicates + 1).
    questions : int
        Questions that both were measured on.
    """

    difference: float
    low: float
    high: float
    p_value: float
    questions: int


@dataclass(frozen=True, eq=False)
class Replicated:
    """A metric's value with its bootstrap replicates.

    Attributes
    ----------
    value : float
    replicates : ndarray of shape (replicates,), float64
        Of resamples that are the same for everything it is compared with; empty where there is one question.
    questions : int
    resampled : str
        Names the questions that were resampled; equal names mean equal questions.
    """

    value: float
    replicates: NDArray[np.float64]
    questions: int
    resampled: str = ""


def compare(first: Metric, second: Metric, bootstrap: Bootstrap) -> Comparison:
    """Compare two cells, resampling the same questions for both.

    The p-value is twice the share of resampled differences on the far side of 0, the observed data counted as
    one more resample: the level at which the percentile interval just touches 0.

    Raises
    ------
    ValueError
        If the two were not measured on the same questions.
    """
    if not np.array_equal(first.question_ids, second.question_ids):
        raise ValueError(
            "A paired comparison needs the same questions on both sides. "
            f"There are {len(first.question_ids)} and {len(second.question_ids)}, not all the same: "
            "keep those that both have."
        )
    questions = len(first.question_ids)
    weights = bootstrap.weights(questions) if questions > 1 else np.empty((0, questions))
    return compare_replicates(
        Replicated(first.value(), first.values(weights), questions),
        Replicated(second.value(), second.values(weights), questions),
    )


def compare_replicates(first: Replicated, second: Replicated) -> Comparison:
    """Compare two cells whose replicates come from the same resamples.

    Raises
    ------
    ValueError
        If they were not resampled alike.
    """
    if first.replicates.shape != second.replicates.shape or first.resampled != second.resampled:
        raise ValueError("A paired comparison needs replicates of the same resamples on both sides.")
    difference = first.value - second.value
    if not first.replicates.size:
        return Comparison(difference, float("nan"), float("nan"), float("nan"), first.questions)
    drawn = first.replicates - second.replicates
    low, high = percentile_interval(drawn)
    tail = 1 + min(np.count_nonzero(drawn <= 0), np.count_nonzero(drawn >= 0))
    return Comparison(difference, low, high, min(1.0, 2 * tail / (len(drawn) + 1)), first.questions)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values for their number by Holm's step-down method.

    Parameters
    ----------
    p_values : array-like of shape (comparisons,)
        In [0, 1]. NaN, a comparison that could not be made, stays NaN and does not count.

    Returns
    -------
    ndarray of shape (comparisons,), float64
        Differences with an adjusted value below alpha are real with a family-wise error of at most alpha.

    Raises
    ------
    ValueError
        If a value lies outside [0, 1].
    """
    raw = np.asarray(p_values, dtype=np.float64)
    if np.any((raw < 0) | (raw > 1)):
        raise ValueError("p-values must be in [0, 1].")
    adjusted = np.full(raw.shape, np.nan)
    made = np.flatnonzero(~np.isnan(raw))
    ascending = made[np.argsort(raw[made], kind="stable")]
    factors = np.arange(len(ascending), 0, -1)
    adjusted[ascending] = np.minimum(1.0, np.maximum.accumulate(raw[ascending] * factors))
    return adjusted
