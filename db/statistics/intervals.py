"""The rules for 95% intervals. A metric names the rule that fits it: see :class:`prmcal.db.statistics.bootstrap.Ratio`.

- :func:`bounded_interval`: a mean of values in a known range, such as an accuracy;
- :func:`skewed_interval`: a mean without a known range, such as a Brier score;
- :func:`known_interval`: a number that is not an estimate, such as a fixed number of samples;
- :func:`percentile_interval`: any other statistic, from its bootstrap replicates;
- :func:`centred_interval`: a statistic with a bias that its interval shall have too.

The first three read one value for each question. Percentiles of a bootstrap are not good enough for means: if 100 of
100 answers are right, so are those of all resamples, and the interval would be [1, 1]. With 30 questions and an
accuracy of .99, the percentile interval contains the truth in 26% of cases, and with 100 questions in 63%.
``python -m benchmarks.analysis.interval_coverage`` measures how often the intervals contain the truth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from prmcal.db.statistics.bisection import bisected

__all__ = [
    "Ends",
    "IntervalRule",
    "bounded_interval",
    "centred_interval",
    "known_interval",
    "percentile_interval",
    "skewed_interval",
]

Ends = tuple[NDArray[np.float64], NDArray[np.float64]]
"""The lower and the upper ends of intervals."""

IntervalRule = Callable[[NDArray[np.float64]], Ends]
"""From the values of questions, (questions,) or (questions, means), to the ends of each mean: () or (means,)."""

_TAIL = 0.025
_PSEUDO_WEIGHT = 0.5
# The weights of the values depend on the logarithm of a number in this range. It is found to 10 digits.
_SMALLEST_LOG, _LARGEST_LOG = -300.0, 5.0
_HALVINGS = 42
_NEWTON_STEPS, _LAST_STEP, _SMALLEST_STATISTIC = 10, 1e-5, 1e-12
_NEWTON_ACCURACY = 2e-11


def bounded_interval(values: NDArray[np.float64], lower: float = 0.0, upper: float = 1.0) -> Ends:
    """Return the 95% interval of the mean of values that lie in a known range.

    It is the interval of empirical likelihood (Owen, 1988; "Empirical Likelihood", 2001), with two changes for small
    samples: half an observation is added at each end of the range, and the critical value is the square of Student's
    t_{n-1} instead of a chi-squared value. With the additions, equal values have an interval too: 100 of 100 right
    answers give [.967, 1]. An LLM with an accuracy of .967 would answer all of them correctly with a chance of 3%.

    Parameters
    ----------
    values : ndarray of shape (n,) or (n, means), float64
        One value for each question, for one mean or for several. Values of a linearised ratio may lie slightly outside
        of the range.
    lower, upper : float
        The range, `lower` < `upper`.

    Returns
    -------
    tuple of two ndarrays of shape () or (means,), float64
        The ends, in the range. The interval contains the mean if it lies in the range. NaN for a single value.
    """
    n, shape = len(values), values.shape[1:]
    if n < 2:
        return _no_interval(shape)
    columns = values.reshape(n, -1)
    means = columns.shape[1]
    added = np.repeat([[lower], [upper]], means, axis=1)
    both = np.concatenate([columns, added])
    # The lower end is minus the upper end of the negative values.
    ends = _likelihood_end(np.concatenate([both, -both], axis=1), stdtrit(n - 1, _TAIL) ** 2)
    mean = columns.mean(axis=0)
    low = np.minimum(-ends[means:], mean)
    high = np.maximum(ends[:means], mean)
    return np.clip(low, lower, upper).reshape(shape), np.clip(high, lower, upper).reshape(shape)


def _likelihood_end(values: NDArray[np.float64], critical: float) -> NDArray[np.float64]:
    """Return the largest mean whose empirical likelihood ratio is not rejected: (rows, means) gives (means,).

    The last two rows have the weight 1/2. The likelihood of a mean is the largest one of all distributions on the
    values that have this mean. For the end of the interval, the probability of a value is proportional to its weight
    divided by its distance from a point above all values. The statistic falls with the distance of this point, which
    is found by bisection for all means at once, close to a point that Newton's method finds.
    """
    weights = np.ones(len(values))
    weights[-2:] = _PSEUDO_WEIGHT
    total = weights.sum()
    top = values.max(axis=0)
    size = top - values.min(axis=0)
    gaps = (top - values) / size

    def rejected(log: NDArray[np.float64]) -> NDArray[np.bool_]:
        distances = gaps + np.exp(log)
        mass = np.einsum("rm,r->m", 1 / distances, weights)
        statistic = 2 * (total * np.log(mass / total) + np.einsum("rm,r->m", np.log(distances), weights))
        return np.asarray(statistic > critical)

    largest = _LARGEST_LOG + float(np.log(total))
    guess = _likelihood_guess(gaps, weights, critical, largest)
    _, far = bisected(rejected, _SMALLEST_LOG, largest, _HALVINGS, guess, _NEWTON_ACCURACY)
    shares = weights[:, None] / (gaps + np.exp(far))
    ends: NDArray[np.float64] = top - size * (shares * gaps).sum(axis=0) / shares.sum(axis=0)
    return ends


def _likelihood_guess(
    gaps: NDArray[np.float64], weights: NDArray[np.float64], critical: float, largest: float
) -> NDArray[np.float64]:
    """Return the logarithms at which the statistic has the critical value, by Newton's method for its logarithm."""
    total = weights.sum()
    mean = np.einsum("rm,r->m", gaps, weights) / total
    deviation = np.sqrt(np.einsum("rm,r->m", (gaps - mean) ** 2, weights) / total)
    log = np.log(deviation) + np.log(total / critical) / 2  # The point of a normal distribution.
    for _ in range(_NEWTON_STEPS):
        near = np.exp(log)
        inverse = 1 / (gaps + near)
        mass = np.einsum("rm,r->m", inverse, weights)
        statistic = 2 * (total * np.log(mass / total) - np.einsum("rm,r->m", np.log(inverse), weights))
        statistic = np.maximum(statistic, _SMALLEST_STATISTIC)
        slope = 2 * near * (mass - total * np.einsum("rm,r->m", inverse**2, weights) / mass)
        step = np.divide(
            np.log(statistic / critical) * statistic, slope, out=np.zeros_like(log), where=slope < 0
        )
        log = np.clip(log - step, _SMALLEST_LOG, largest)
        if np.abs(step).max() < _LAST_STEP:
            break
    return np.asarray(log, dtype=np.float64)


def skewed_interval(values: NDArray[np.float64]) -> Ends:
    """Return the 95% interval of the mean of values without a known range.

    It is the interval of Hall's cubic transformation of Student's t (Hall, 1992, "On the removal of skewness by
    transformation", Journal of the Royal Statistical Society B 54, 221-228). The transformation removes the effect of
    the skewness, so that the interval reaches farther to the side of the long tail. In small samples, the tail is
    often not seen. So the standard deviation and the skewness are those of the sample in which the smallest and the
    largest value are counted twice.

    Parameters
    ----------
    values : ndarray of shape (n,) or (n, means), float64
        One value for each question, for one mean or for several.

    Returns
    -------
    tuple of two ndarrays of shape () or (means,), float64
        The ends. The interval contains the mean, and both ends are the mean if all values are equal. NaN for a single
        value.
    """
    n, shape = len(values), values.shape[1:]
    if n < 2:
        return _no_interval(shape)
    mean, size = values.mean(axis=0), np.ptp(values, axis=0)
    longer = np.concatenate([values, values.min(axis=0, keepdims=True), values.max(axis=0, keepdims=True)])
    # In units of the range, since powers of very small numbers would be 0.
    apart = np.divide(longer - longer.mean(axis=0), size, out=np.zeros(longer.shape), where=size > 0)
    variance = (apart**2).mean(axis=0)
    cubes = (apart**3).mean(axis=0)
    skewness = np.divide(cubes, variance**1.5, out=np.zeros(shape), where=variance > 0)
    error = size * np.sqrt(variance * len(longer) / (len(longer) - 1))
    t = -stdtrit(n - 1, _TAIL)
    return mean - error * _without_skewness(t, skewness, n), mean + error * _without_skewness(t, -skewness, n)


def _without_skewness(t: float, skewness: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the value whose cubic transformation is t, divided by sqrt(n).

    The transformation is x + g x^2 / 3 + g^2 x^3 / 27 + g / (6 n) for x = T / sqrt(n) and the skewness g.
    """
    shifted = t / np.sqrt(n) - skewness / (6 * n)
    root = np.cbrt(1 + skewness * shifted)
    # (root - 1) * 3 / skewness, in a form that also holds for a skewness of 0.
    solved: NDArray[np.float64] = 3 * shifted / (root**2 + root + 1)
    return solved


def known_interval(values: NDArray[np.float64]) -> Ends:
    """Return the mean twice: a number that is known beforehand and not estimated, such as a fixed number of samples."""
    mean = np.asarray(values.mean(axis=0), dtype=np.float64)
    return mean, mean


def percentile_interval(replicates: NDArray[np.float64], questions: int) -> tuple[float, float]:
    """Return the ends of the 95% interval of any statistic, which are percentiles of its bootstrap replicates.

    For many questions they are the 2.5th and the 97.5th percentile. For few questions, plain percentile intervals are
    too narrow: the spread of the resamples is too small by the factor sqrt(1 - 1/questions), and their tails are
    normal instead of Student's. The percentiles are therefore moved outwards as far as both effects require for a
    mean ("expanded percentile interval", Hesterberg, 2015).

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


def centred_interval(value: float, replicates: NDArray[np.float64], questions: int) -> tuple[float, float]:
    """Return the ends of the 95% interval of a statistic that is not negative and that noise increases.

    The replicates have the noise twice: that of the questions, and that of drawing from them. So they tend to lie above
    the value. Their percentiles are moved by the difference between the value and their mean. The interval contains the
    value, and it is one of the statistic's expectation for as many questions, which includes the increase.

    Parameters
    ----------
    value : float
        The statistic, at least 0.
    replicates : ndarray of shape (replicates,)
        Values of the resamples.
    questions : int
        Number of resampled questions, at least 2.
    """
    low, high = percentile_interval(replicates, questions)
    centre = float(replicates.mean())
    return max(value + min(low - centre, 0.0), 0.0), value + max(high - centre, 0.0)


def _no_interval(shape: tuple[int, ...]) -> Ends:
    return np.full(shape, np.nan), np.full(shape, np.nan)
