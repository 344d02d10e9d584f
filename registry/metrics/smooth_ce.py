"""Calibration errors without bins: smooth ECE and the squared calibration error."""

from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct

from prmcal.arrays import Floats, Ints
from prmcal.registry.contracts.metric import Known, Metric, PrefixRows, UnderWeights
from prmcal.registry.contracts.plugin import Count
from prmcal.registry.metrics.bins import BinTotals, bin_totals
from prmcal.registry.metrics.laws import binomial
from prmcal.resamples import weighted_totals

_CITATION = "Blasiok and Nakkiran (2023), arXiv:2309.12236"
_POINTS = 256
"""Points of the grid over [0, 1], at which residuals are added up."""
_TOLERANCE = 3e-5
"""The width of the bracket at which a search ends. The line through the last two points leads much closer."""
_SERIES_STEPS = 2.0**40
"""Steps between 0 and 1, to which a cosine series is rounded."""
_LEAST = 1e-9
"""The smallest scale, which is not 0, since a kernel needs a width."""
_FIRST_FALL = 1.6
"""A guess of how fast the error minus the scale falls where a search begins."""
_FARTHEST = 9.0
"""Standard deviations of the kernel after which it is 0: exp(-40)."""
_COSINES = idct(np.eye(_POINTS), axis=1, norm="ortho")[:, : _POINTS // 2]
"""The terms of a cosine series at the points of the lower half."""
_TOGETHER = 100
"""Resamples that are smoothed at once. They fit into a processor's cache."""
_DRAWS, _LIMIT = 1000, 0.95
_MARGIN = 0.1
"""The distance below a quantile, as a share of the values, of those that are not computed."""


class SmoothCE(Metric):
    """The smooth calibration error, in [0, 1]: the integral of ``abs(E[K(t, r) (r - y)])`` over t.

    K is a Gaussian kernel that is reflected at 0 and 1. Its standard deviation is the error itself, which is so for one
    number only. There are no bins, so a small change of a reward changes the value only a little. Noise increases the
    value: compare it with :class:`SmoothCENull`.

    Rewards are rounded to a grid of 256 points. The reflected kernel multiplies each term of the cosine series of the
    residuals by a number, so many resamples are smoothed at once. The scale is found by a search with secants.
    """

    citation = _CITATION
    title, better = "Smooth CE", "lower"
    description = (
        "Calibration error with a smooth kernel in place of bins (smECE). Noise increases it: a value below "
        "'Smooth CE, null' can be noise."
    )

    def measure(self, rows: PrefixRows) -> UnderWeights:
        """Return the error under weights of the questions."""
        series = _cosine_series(rows, rows.reward - rows.success_rate)
        counts = rows.counts

        def values(weights: Floats) -> Floats:
            totals = weighted_totals(weights, series)
            totals /= weighted_totals(weights, counts)[:, None]
            return _fixed_point(totals)

        return UnderWeights(values, above_zero=True)


class SmoothCENull(Metric):
    """The 95% point of the smooth calibration error of a predictor with p = r and the same follow-ups.

    The successes of each prefix are drawn 1,000 times from the binomial distribution of n and r, with a fixed seed. A
    :class:`SmoothCE` below this limit is no sign of a calibration error. The limit contains the noise of the
    follow-ups only. Where p differs between prefixes with equal rewards, a calibrated predictor has more noise, in
    particular if prefixes of one question differ in the same direction.
    """

    citation = _CITATION
    version = "2"
    title = "Smooth CE, null"
    description = (
        "95% point of Smooth CE if rewards were the success probabilities: a Smooth CE below it can be noise."
    )

    def measure(self, rows: PrefixRows) -> Known:
        """Return the limit."""
        random = np.random.default_rng(0)
        # Prefixes with the same n at one point of the grid are drawn together, so that their order does not matter.
        points, most = _points(rows.reward), int(rows.follow_ups.max()) + 1
        cells, counts = np.unique(points * most + rows.follow_ups, return_counts=True)
        point, follow_ups = np.divmod(cells, most)
        total = np.bincount(points, weights=rows.reward, minlength=_POINTS)
        size = np.bincount(points, minlength=_POINTS)
        reward = np.round(total[point] / size[point], 12)
        drawn = _drawn(random, counts * follow_ups, reward) / follow_ups
        residuals = np.zeros((_DRAWS, _POINTS))
        for n in np.unique(follow_ups):  # Of each n, a point has one column.
            own = follow_ups == n
            residuals[:, point[own]] += (counts * reward - drawn)[:, own]
        series = dct(residuals / len(rows.reward), axis=1, norm="ortho")
        return Known(_high_quantile(series, _LIMIT))


def _cosine_series(rows: PrefixRows, residuals: Floats) -> Floats:
    """Return the cosine series of the residuals of each question, of shape (questions, points).

    It is rounded, which halves the time of its sums: they have few digits then.
    """
    questions = len(rows.question_ids)
    cell = rows.question_index * _POINTS + _points(rows.reward)
    totals = np.bincount(cell, weights=residuals, minlength=questions * _POINTS)
    series: Floats = dct(totals.reshape(questions, _POINTS), axis=1, norm="ortho")
    return np.rint(series * _SERIES_STEPS) / _SERIES_STEPS


def _fixed_point(series: Floats) -> Floats:
    """Return the scale that equals the error at this scale, for each row: (resamples, points) gives (resamples,).

    The error falls with the scale, so there is one such scale. It is exact to about 1e-6.
    """
    found, falls = np.empty(len(series)), np.empty(len(series))
    for first in range(0, len(series), _TOGETHER):
        part, own = series[first : first + _TOGETHER], slice(first, first + _TOGETHER)
        # At every scale, the error is at least the mean residual.
        near, fall = np.sqrt(_POINTS) * np.abs(part[:, 0]), _FIRST_FALL
        if first:  # Resamples are similar, so a search begins where the one before has ended.
            before = slice(first - _TOGETHER, first)
            near, fall = np.full(len(part), np.median(found[before])), float(np.median(falls[before]))
        found[own], falls[own] = _crossing(part, near, fall)
    return found


def _high_quantile(series: Floats, level: float) -> float:
    """Return a high quantile of :func:`_fixed_point` of all rows. Values far below it are not computed."""
    # The error falls with the scale. So a row whose error at some scale is above the scale has a value above it.
    some = np.quantile(_fixed_point(series[:_TOGETHER]), level - _MARGIN, method="lower", keepdims=True)
    scale = np.maximum(some, _LEAST)
    above = _errors(series, scale) > scale
    values = np.where(above, 1.0, scale)
    if np.quantile(values, level, method="lower") == scale:  # The first rows do not tell enough.
        above[:] = True
    values[above] = _fixed_point(series[above])
    return float(np.quantile(values, level))


def _crossing(series: Floats, near: Floats, first_fall: float) -> tuple[Floats, Floats]:
    """Return :func:`_fixed_point` of a few rows, and how fast the error minus the scale falls there.

    The search begins at `near`, and takes the fall to be `first_fall` until it is known. Each row has a bracket: the
    error is above the scale at its lower end, and not at its upper end. The next scale is where the line through the
    last two points reaches 0.
    """
    rows = np.arange(len(series))
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    found, falls = np.empty(len(rows)), np.full(len(rows), first_fall)
    before, excess_before = low, low
    scale = np.clip(near, _LEAST, 1.0)
    for turn in count(1):
        excess = _errors(series[rows], scale) - scale
        if turn > 1:  # The error falls, so the excess falls by at least the growth of the scale.
            falls[rows] = np.maximum((excess_before - excess) / (scale - before), 1.0)
        # For the same reason, the scale that is sought is not farther away than the excess.
        low[rows] = np.maximum(low[rows], np.minimum(scale, scale + excess))
        high[rows] = np.minimum(high[rows], np.maximum(scale, scale + excess))
        found[rows] = np.clip(scale + excess / falls[rows], low[rows], high[rows])
        left = high[rows] - low[rows] > _TOLERANCE
        if not left.any():
            break
        rows, before, excess_before = rows[left], scale[left], excess[left]
        inside = (low[rows] < found[rows]) & (found[rows] < high[rows])
        # Halving now and then keeps the number of turns small for any function.
        scale = np.where(inside & (turn % 8 > 0), found[rows], (low[rows] + high[rows]) / 2)
    return found, falls


def _errors(series: Floats, scale: Floats) -> Floats:
    """Return the error of each row at its scale, or at one scale for all."""
    # The kernel is 0 beyond these frequencies.
    kept = min(_POINTS, 1 + int(_FARTHEST / (np.pi * scale.min())))
    kernel = np.exp(-((np.pi * np.arange(kept) * scale[:, None]) ** 2) / 2)
    even, odd = (
        np.abs((series[:, part] * kernel[:, part]) @ _COSINES[part])
        for part in (slice(0, kept, 2), slice(1, kept, 2))
    )
    # At point i the series is even + odd, and at the point opposite to it even - odd: |a + b| + |a - b| is twice the
    # larger of |a| and |b|.
    return np.asarray(2 * np.maximum(even, odd, out=even).sum(axis=1), dtype=np.float64)


def _drawn(random: np.random.Generator, n: NDArray[np.integer[Any]], p: Floats) -> Floats:
    """Draw numbers of successes from binomial distributions with n and p of shape (cells,): (draws, cells)."""
    # The smallest k with P(K <= k) > u. This takes a part of the time of `random.binomial`.
    uniform, drawn = random.random((len(n), _DRAWS)), np.empty((len(n), _DRAWS))
    for size in np.unique(n):
        own = np.flatnonzero(n == size)
        up_to = np.cumsum(binomial(np.arange(size), size, p[own, None]), axis=1)
        for cell, each in zip(own, up_to, strict=True):
            drawn[cell] = np.searchsorted(each, uniform[cell], side="right")
    return drawn.T


def _points(reward: Floats) -> Ints:
    """Return the point of the grid that is closest to each reward. Point i is at (i + 1/2) / 256."""
    return np.minimum((reward * _POINTS).astype(np.int64), _POINTS - 1)


@dataclass(eq=False)
class SquaredCE(Metric):
    """The mean of (E[r - p])^2 over bins of equal width, weighted by their prefixes, without bias.

    The square of a mean error is estimated by products of errors of two different questions, whose noise is
    independent: with the sum S_q of r - y over the m_q prefixes of a question q in a bin with m prefixes,

        ((sum_q S_q)^2 - sum_q S_q^2) / (m^2 - sum_q m_q^2).

    So neither the noise of the follow-ups nor that of prefixes of one question adds to it, and a calibrated predictor
    has 0 on average. The value can be below 0 and is not clipped. A bin with prefixes of a single question is left out.

    Notes
    -----
    Estimates of Kumar, Liang and Ma (2019), "Verified uncertainty calibration", section 4, subtract y(1 - y)/(m - 1)
    from the square of a bin. This is for labels of 0 and 1: for success rates of 8 follow-ups it is eight times too
    much, and it leaves the noise that prefixes of one question share.
    """

    citation = "after Kumar, Liang and Ma (2019), arXiv:1909.10155"
    title, better = "Squared CE", "lower"
    description = (
        "Squared calibration error over bins of equal width, from pairs of different questions, so that noise adds "
        "nothing; it can fall below 0 by chance."
    )

    bins: Count = 10
    """The number of bins over [0, 1]."""

    def measure(self, rows: PrefixRows) -> UnderWeights | None:
        """Return the error under weights of the questions, or None if no bin has prefixes of two questions."""
        totals = bin_totals(rows, self.bins)
        if not (np.count_nonzero(totals.counts, axis=0) > 1).any():
            return None
        return UnderWeights(lambda weights: _by_pairs(weights, totals))


def _by_pairs(weights: Floats, totals: BinTotals) -> Floats:
    """Return the error under each row of weights. A question that was drawn twice is not a pair with itself."""
    total, mass = totals.under(weights)
    squares_of_each = np.concatenate([totals.errors**2, totals.counts**2], axis=1)
    own, own_mass = np.split(weighted_totals(weights**2, squares_of_each), 2, axis=1)
    pairs = mass**2 - own_mass
    # Counts are whole numbers, so the difference is exact.
    known = pairs > 0.5
    squares = np.divide(total**2 - own, pairs, out=np.zeros_like(pairs), where=known)
    share = np.where(known, mass, 0.0)
    return np.asarray((squares * share).sum(axis=1) / np.maximum(share.sum(axis=1), 1.0), dtype=np.float64)
