"""What a metric returns besides one value per prefix: forms of which intervals and paired tests are computed.

Intervals are over questions, because prefixes of one question are not independent. Most are made by resampling: a
resample is a row of weights, which says how often each question was drawn. All resamples are computed at once, from
arrays of shape (resamples, questions) to arrays of shape (resamples,).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["AbsoluteSum", "Known", "QuestionRatio", "UnderWeights"]


@dataclass(frozen=True, eq=False)
class QuestionRatio:
    """The sum of S_q over the questions q, divided by the sum of c_q.

    The mean over questions has the values as sums and ones as counts.

    Attributes
    ----------
    sums, counts : ndarray of shape (questions,), float64
        S_q and c_q, in the order of `rows.question_ids`. The counts are not negative, and one is positive.
    bounds : tuple of two floats, optional
        The range of S_q / c_q if it is known, such as (0, 1). The interval then stays in it.
    """

    sums: NDArray[np.float64]
    counts: NDArray[np.float64]
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class AbsoluteSum:
    """The sum of the absolute values of some errors, such as the mean errors of bins.

    Noise increases it: it is above 0 even where all errors are 0 on average.

    Attributes
    ----------
    errors : callable
        From weights of shape (resamples, questions) to the signed errors, of shape (resamples, errors).
    corrected : bool
        Whether to remove the noise of the errors, which is measured by resampling the questions.
    """

    errors: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    corrected: bool = False


@dataclass(frozen=True, eq=False)
class UnderWeights:
    """Any number that is computed from the rows.

    It is computed for every resample, usually 2,000 times, and for one row of ones. Use sums over the rows of each
    question where possible, so that the cost does not grow with the rows: see `rows.totals` and
    :func:`prmcal.resamples.weighted_totals`.

    Attributes
    ----------
    values : callable
        From weights of shape (resamples, questions) to the values, of shape (resamples,). A weight says how often a
        question counts, and is 0 for a question that was not drawn.
    above_zero : bool
        Whether it is never below 0 and noise increases it. Its interval is then centred at the value. Otherwise, the
        ends are percentiles of the resamples.
    """

    values: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    above_zero: bool = False


@dataclass(frozen=True)
class Known:
    """A number that is not an estimate over questions. Both ends of its interval are the number.

    Attributes
    ----------
    value : float
    """

    value: float
