"""Values with intervals, and the intervals of proportions, of differences and of absolute sums."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import scipy  # its parts are imported when they are used

from prmcal.arrays import Floats

Ends = tuple[Floats, Floats]
"""The lower and the upper ends of intervals."""

IntervalRule = Callable[[Floats], Ends]
"""From the values of questions, (questions,) or (questions, means), to the ends of each mean: () or (means,)."""


@dataclass(frozen=True)
class Estimate:
    """A value with its 95% interval over questions; the interval is NaN if there are too few questions."""

    value: float
    low: float
    high: float

    def columns(self, name: str) -> dict[str, float]:
        """Return the value and its ends under the names of their columns in files."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


UNKNOWN = Estimate(float("nan"), float("nan"), float("nan"))
"""A value that was not measured."""

_TAIL = 0.025
_PSEUDO_WEIGHT = 0.5
# The weights of the values depend on the logarithm of a distance in this range. The error of Newton's method is about
# the square of its last step.
_SMALLEST_LOG, _LARGEST_LOG = -300.0, 5.0
_MOST_STEPS, _LAST_STEP, _SMALLEST_STATISTIC = 60, 1e-6, 1e-12


def bounded_interval(values: Floats, lower: float = 0.0, upper: float = 1.0) -> Ends:
    """Return the 95% interval of the mean of values that lie in a known range.

    It is the interval of empirical likelihood (Owen, 1988; "Empirical Likelihood", 2001), with two changes for small
    samples: half an observation is added at each end of the range, and the critical value is the square of Student's
    t_{n-1} instead of a chi-squared value. With the additions, equal values have an interval too: 100 of 100 right
    answers give [.967, 1]. An LLM with an accuracy of .967 would answer all 100 correctly with a chance of 3%.

    `values`, of shape (n,) or (n, means), has one value for each question, for one mean or for several. Values of a
    linearised ratio may lie slightly outside of the range. The ends have the shape () or (means,), and lie in the
    range. The interval contains the mean if the mean lies in the range. It is NaN for less than two values.
    """
    shape = values.shape[1:]
    if len(values) < 2:
        return np.full(shape, np.nan), np.full(shape, np.nan)
    ends = _likelihood_ends(values.reshape(len(values), math.prod(shape)), lower, upper)
    low, high = np.clip(ends, lower, upper)
    return low.reshape(shape), high.reshape(shape)


def _likelihood_ends(columns: Floats, lower: float, upper: float) -> Ends:
    """Return the ends with half an observation at `lower` and at `upper`, for values of shape (rows, means)."""
    n, means = columns.shape
    mean = columns.mean(axis=0)
    critical = np.full(2 * means, scipy.special.stdtrit(n - 1, _TAIL) ** 2)
    extended = np.concatenate([columns, np.repeat([[lower], [upper]], means, axis=1)])
    weights = np.ones((n + 2, 2 * means))
    weights[n:] = _PSEUDO_WEIGHT
    # The lower end is minus the upper end of the negative values.
    ends = _likelihood_end(np.concatenate([-extended, extended], axis=1), weights, critical)
    return np.minimum(-ends[:means], mean), np.maximum(ends[means:], mean)


def _likelihood_end(values: Floats, weights: Floats, critical: Floats) -> Floats:
    """Return the largest mean whose empirical likelihood ratio is not rejected: (rows, means) gives (means,).

    The likelihood of a mean is the largest likelihood of all distributions on the values with this mean. For the end of
    the interval, the probability of a value is proportional to its weight divided by its distance from a point above
    all values.
    """
    top = values.max(axis=0)
    size = top - values.min(axis=0)
    gaps = (top - values) / size
    shares = weights / (gaps + np.exp(_log_distance(gaps, weights, critical)))
    return np.asarray(top - size * (shares * gaps).sum(axis=0) / shares.sum(axis=0), dtype=np.float64)


def _log_distance(gaps: Floats, weights: Floats, critical: Floats) -> Floats:
    """Return the logarithm of the distance from the largest value at which the statistic has the critical value.

    The statistic falls with the distance. Newton's method follows its logarithm, for all means at once. If a step would
    leave the bracket of the result, the bracket is halved instead.
    """

    def summed(terms: Floats) -> Floats:
        return np.asarray(np.einsum("rm,rm->m", terms, weights))

    total = weights.sum(axis=0)
    deviation = np.sqrt(summed((gaps - summed(gaps) / total) ** 2) / total)
    low, high = np.full(total.shape, _SMALLEST_LOG), _LARGEST_LOG + np.log(total)
    # For many values with a normal distribution, this is about the result.
    log = np.clip(np.log(deviation) + np.log(total / critical) / 2, low, high)
    for _ in range(_MOST_STEPS):
        near = np.exp(log)
        inverse = 1 / (gaps + near)
        mass = summed(inverse)
        statistic = 2 * (total * np.log(mass / total) - summed(np.log(inverse)))
        rejected = statistic > critical
        low, high = np.where(rejected, log, low), np.where(rejected, high, log)
        # The bounds keep rounding errors from changing a sign.
        statistic = np.maximum(statistic, _SMALLEST_STATISTIC)
        slope = np.minimum(2 * near * (mass - total * summed(inverse**2) / mass), -_SMALLEST_STATISTIC)
        following = log - np.log(statistic / critical) * statistic / slope
        following = np.where((low <= following) & (following <= high), following, (low + high) / 2)
        step = np.abs(following - log).max(initial=0.0)
        log = following
        if step < _LAST_STEP:
            break
    return np.asarray(log, dtype=np.float64)


def skewed_interval(values: Floats) -> Ends:
    """Return the 95% interval of the mean of values without a known range.

    The interval is by Hall's cubic transformation of Student's t (Hall, 1992, "On the removal of skewness by
    transformation", Journal of the Royal Statistical Society B 54, 221-228). The transformation removes the effect of
    the skewness, so that the interval reaches farther to the side of the long tail. In small samples, the tail is often
    not seen. So the standard deviation and the skewness are computed with the smallest and the largest value counted
    twice.

    `values`, of shape (n,) or (n, means), has one value for each question, for one mean or for several. The ends have
    the shape () or (means,). The interval contains the mean, and both ends are the mean if all values are equal. It is
    NaN for a single value.
    """
    n, shape = len(values), values.shape[1:]
    if n < 2:
        return np.full(shape, np.nan), np.full(shape, np.nan)
    mean, size = values.mean(axis=0), np.ptp(values, axis=0)
    longer = np.concatenate([values, values.min(axis=0, keepdims=True), values.max(axis=0, keepdims=True)])
    # In units of the range, since powers of very small numbers would be 0.
    deviations = np.divide(longer - longer.mean(axis=0), size, out=np.zeros(longer.shape), where=size > 0)
    variance = (deviations**2).mean(axis=0)
    cubes = (deviations**3).mean(axis=0)
    skewness = np.divide(cubes, variance**1.5, out=np.zeros(shape), where=variance > 0)
    error = size * np.sqrt(variance * len(longer) / (len(longer) - 1))
    t = -scipy.special.stdtrit(n - 1, _TAIL)
    return mean - error * _without_skewness(t, skewness, n), mean + error * _without_skewness(t, -skewness, n)


def _without_skewness(t: float, skewness: Floats, n: int) -> Floats:
    """Return the value whose cubic transformation is t, divided by sqrt(n).

    The transformation is x + g x^2 / 3 + g^2 x^3 / 27 + g / (6 n) for x = T / sqrt(n) and the skewness g.
    """
    shifted = t / np.sqrt(n) - skewness / (6 * n)
    root = np.cbrt(1 + skewness * shifted)
    # (root - 1) * 3 / skewness, in a form that also holds for a skewness of 0.
    return np.asarray(3 * shifted / (root**2 + root + 1), dtype=np.float64)


def cautious_interval(values: Floats, lower: float, upper: float) -> Ends:
    """Return the 95% interval of a mean that a few values could change if they were drawn.

    Where nearly all questions are hopeless, or a calibrator errs badly on one question of fifty, few questions decide
    the mean, and a sample may lack these questions. So each end is the farther one of :func:`skewed_interval` and of
    the interval of empirical likelihood with half an observation at `lower` and at `upper` (see
    :func:`bounded_interval`). The bounds are the usual ones of the value of one question. A value may lie beyond these
    bounds. For hundreds of questions that differ, the ends come from :func:`skewed_interval`.

    `values`, of shape (n,) or (n, means), has one value for each question. The ends have the shape () or (means,), and
    contain the mean. The ends differ even if all values are equal. They are NaN for a single value.
    """
    columns = values.reshape(len(values), math.prod(values.shape[1:]))
    low, high = skewed_interval(columns)
    if len(columns) > 1:
        allowed = _likelihood_ends(columns, lower, upper)
        low, high = np.minimum(low, allowed[0]), np.maximum(high, allowed[1])
    return low.reshape(values.shape[1:]), high.reshape(values.shape[1:])


@lru_cache
def cautious_within(lower: float, upper: float) -> IntervalRule:
    """Return :func:`cautious_interval` with a range. Equal ranges have the same rule, so that they are joined."""
    return partial(cautious_interval, lower=lower, upper=upper)


error_interval = cautious_within(0.0, 0.5)
"""The rule for mean squared errors: a reward that is .7 off on all prefixes of a question has .5."""
signed_interval = cautious_within(-0.5, 0.5)
"""The rule for mean signed errors."""
gain_interval = cautious_within(-0.25, 0.25)
"""The rule for differences of mean accuracies."""


def exact_interval(values: Floats) -> Ends:
    """Return the mean twice: a number that is known beforehand and not estimated, such as a fixed number of samples."""
    mean = np.asarray(values.mean(axis=0), dtype=np.float64)
    return mean, mean


def percentile_interval(replicates: Floats, questions: int) -> tuple[float, float]:
    """Return the ends of the 95% interval of any statistic, which are percentiles of its bootstrap replicates.

    For many questions they are the 2.5th and the 97.5th percentile. For few questions (there are at least 2), plain
    percentile intervals are too narrow: the spread of the resamples is too small by the factor sqrt(1 - 1/questions),
    and their tails are normal instead of Student's. The percentiles are therefore moved outwards as far as both effects
    require for a mean ("expanded percentile interval", Hesterberg, 2015).
    """
    tail = tail_of_resamples(questions, _TAIL)
    low, high = np.quantile(replicates, (tail, 1 - tail))
    return float(low), float(high)


def tail_of_resamples(questions: int, tail: float) -> float:
    """Return the share of resamples that corresponds to a tail of the truth. There are at least 2 questions."""
    outermost = scipy.special.stdtrit(questions - 1, tail) * np.sqrt(questions / (questions - 1))
    return float(scipy.special.ndtr(outermost))


def centred_interval(value: float, replicates: Floats, questions: int) -> tuple[float, float]:
    """Return the ends of the 95% interval of a statistic that is not negative and that noise increases.

    The replicates, of shape (replicates,), have the noise twice: from the questions, and from drawing questions. So the
    replicates tend to lie above the value. Their percentiles are moved by the difference between the value and their
    mean. The interval contains the value. It is for the statistic's expectation with as many questions (at least 2),
    including the increase.
    """
    low, high = percentile_interval(replicates, questions)
    centre = float(replicates.mean())
    return max(value + min(low - centre, 0.0), 0.0), value + max(high - centre, 0.0)


_NORMAL_TAIL = 1.959964  # in standard deviations
_HALVINGS = 60


def without_noise(terms: Floats, noise: Floats) -> Floats:
    """Estimate sums of absolute values without the increase by noise.

    The estimates are the sums of |e| - 2 s phi(e / s), which can be below 0. `terms`, of shape (sums, terms), are the
    measured e, and `noise`, of shape (terms,), their standard errors s. A term without noise is unchanged. The result
    has the shape (sums,).
    """
    relative = terms / np.where(noise > 0, noise, 1.0)
    density = np.exp(-(relative**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray((np.abs(terms) - 2 * noise * density).sum(axis=1), dtype=np.float64)


def absolute_sum_interval(terms: Floats, resampled: Floats, questions: int) -> tuple[float, float]:
    """Return the ends of the 95% interval of the sum of the absolute values of the terms without noise.

    The upper end is a percentile of the resampled sums. Noise only increases the sums, so it is too large rather than
    too small. For the same reason, the lower end cannot be a percentile: it is found with a test. The lower end is the
    smallest sum that reaches the measured sum in 2.5% of the resamples when the noise is added. The terms of smaller
    sums are the measured terms, moved towards 0 in proportion to their variances, but not beyond 0. They are the
    closest terms with this sum, by least squares.

    `terms`, of shape (terms,), are the measured terms, and `resampled`, of shape (replicates, terms), the terms of the
    resamples. There are at least 2 questions.
    """
    high = percentile_interval(np.abs(resampled).sum(axis=1), questions)[1]
    # Few questions: the resamples vary too little, and their tails are normal instead of Student's.
    widening = np.sqrt(questions / (questions - 1))
    variances = (resampled.std(axis=0) * widening) ** 2
    widening *= -scipy.special.stdtrit(questions - 1, _TAIL) / _NORMAL_TAIL
    # Resamples are in the last axis, along which processors work fast.
    noise = ((resampled.mean(axis=0) - resampled) * widening).T.copy()
    sizes = np.abs(terms)
    measured_sum = sizes.sum() * (1 - 1e-12)
    low_step, high_step = 0.0, float(np.max(sizes / np.where(variances > 0, variances, np.inf), initial=0.0))
    if _reached(_shrunk(terms, variances, high_step), noise, measured_sum):
        return float(np.abs(_shrunk(terms, variances, high_step)).sum()), high
    for _ in range(_HALVINGS):
        step = (low_step + high_step) / 2
        if _reached(_shrunk(terms, variances, step), noise, measured_sum):
            low_step = step
        else:
            high_step = step
    return float(np.abs(_shrunk(terms, variances, low_step)).sum()), high


def _shrunk(terms: Floats, variances: Floats, step: float) -> Floats:
    """Return terms that are moved towards 0 by a step times their variances, and no further than 0."""
    return np.asarray(np.sign(terms) * np.maximum(np.abs(terms) - step * variances, 0))


def _reached(terms: Floats, noise: Floats, measured_sum: float) -> bool:
    """Return whether the absolute sums of terms with noise reach a sum in 2.5% of the resamples."""
    return bool(np.mean(np.abs(terms[:, None] + noise).sum(axis=0) >= measured_sum) >= _TAIL)
