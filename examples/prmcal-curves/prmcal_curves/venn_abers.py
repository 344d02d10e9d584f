"""Inductive Venn-Abers prediction (Vovk, Petej and Fedorova, 2015)."""

from bisect import bisect_left

import numpy as np

from prmcal import Calibrator


class _Hull:
    """The lower convex hull of points that are added at one end. The last one can be taken back.

    It is kept as a stack. `sign` is 1 if points are added to the right, where slopes become larger, and -1 if they are
    added to the left, where slopes become smaller.
    """

    def __init__(self, sign):
        self.sign = sign
        self.points = []
        self.slopes = []
        """The slope before each point but the first, times the sign, ascending."""
        self.removed = []

    def add(self, point):
        """Add a point beyond all others, and remove those that are no longer on the hull."""
        points, slopes = self.points, self.slopes
        gone_points, gone_slopes = [], []
        while slopes and self.sign * _slope(points[-1], point) <= slopes[-1]:
            gone_points.append(points.pop())
            gone_slopes.append(slopes.pop())
        if points:
            slopes.append(self.sign * _slope(points[-1], point))
        points.append(point)
        self.removed.append((gone_points, gone_slopes))

    def take_back(self):
        """Undo the last addition."""
        self.points.pop()
        if self.points:
            self.slopes.pop()
        points, slopes = self.removed.pop()
        self.points += reversed(points)
        self.slopes += reversed(slopes)

    def touched(self, slope):
        """Return a point in which a line of this slope touches the hull from below."""
        return self.points[bisect_left(self.slopes, self.sign * slope)]


def values_with_one_more(follow_ups, successes, outcome):
    r"""Return the value of an isotonic fit at an added outcome (0 or 1), for every place of this outcome.

    An isotonic fit has the slopes of the greatest convex minorant of the cumulative sums. If the points before the
    added outcome are moved by (-1, -outcome), one line joins both sides of the gap: it touches both parts from below,
    and its slope is the value at the outcome. When the place moves to the right, one point changes sides. Both lower
    hulls are kept as stacks, so all places together take O(points log points) steps. This is the idea of algorithms 1
    to 4 of Vovk et al. (2015).

    Follow-ups, which are positive, and successes, of shape (points,), are sums over the prefixes with the same reward,
    by ascending reward. The added outcome has the weight of one follow-up. The result, of shape (2 points + 1,), has
    the values before the first point, at it, between it and the second, and so on. They do not decrease.
    """
    x = np.concatenate([[0.0], np.cumsum(follow_ups)]).tolist()
    y = np.concatenate([[0.0], np.cumsum(successes)]).tolist()
    left, right = _Hull(1), _Hull(-1)
    for point in reversed(list(zip(x, y, strict=True))):
        right.add(point)
    values = [float(y[-1] / x[-1])]
    for place in range(2 * len(x) - 1):
        # At a point itself, the outcome joins it: the point before it is on the left, and its own end on the right.
        if place % 2 == 0:
            left.add((x[place // 2] - 1, y[place // 2] - outcome))
        else:
            right.take_back()
        values.append(_bridge(left, right, values[-1]))
    return np.clip(np.array(values[1:]), 0.0, 1.0)


def _bridge(left, right, guess):
    """Return the slope of the line that touches both hulls from below. It is in [0, 1]."""
    # A line of a slope that is too small touches the right hull above the extension of the one that touches the left
    # hull, and the slope of the line through both touched points is larger. So the slope can be bracketed. Every other
    # step halves the bracket, and the others go to the slope of the line through both touched points.
    low, high, slope = 0.0, 1.0, guess
    halve = False
    while True:
        better = _slope(left.touched(slope), right.touched(slope))
        low, high = (slope, high) if better > slope else (low, slope)
        middle = (low + high) / 2
        if better == slope or not low < middle < high:
            return better
        slope = middle if halve or not low <= better <= high else better
        halve = not halve


def _slope(first, second):
    return (second[1] - first[1]) / (second[0] - first[0])


class VennAbers(Calibrator):
    """Map the reward to the middle of two isotonic fits: one in which it has failed, one in which it has succeeded.

    For a new prefix with reward s, one more follow-up is added to the calibration data: with reward s and the outcome
    0 for the first isotonic fit, and with the outcome 1 for the second. The values of the fits at s are p0 <= p1. The
    calibrated reward is p1 / (1 - p0 + p1), which has the lowest regret of the log loss (section 4 of Vovk et al.,
    2015, "Large-scale probabilistic predictors with and without guarantees of validity"). Every follow-up of the
    calibration data has the same weight, as has the one that is added.

    With much data around s, p0 and p1 are close to each other and to ``isotonic``. With little data, the reward is
    pulled towards 1/2, and it is never 0 or 1.

    Attributes
    ----------
    rewards_ : ndarray of shape (points,), float64
        The distinct rewards of the calibration data, ascending.
    failed_, succeeded_ : ndarray of shape (2 points + 1,), float64
        p0 and p1 below the first reward, at it, between it and the second, at the second, ..., and above the last.
        They do not depend on anything else of s, so nothing is fitted when a reward is predicted.

    Notes
    -----
    **What p0 and p1 are not.** They are not quantiles of the success probability, so they are not used as levels. One
    of them, and it is not known which, is a calibrated probability of one outcome, if all outcomes are exchangeable.
    The outcomes of the follow-ups of one prefix, and those of the prefixes of one question, are not. So the validity
    does not carry over to prefixes. The distance of p0 and p1 says how much one more outcome would change the fit.
    """

    citation = "Vovk et al. (2015), NeurIPS, arXiv:1511.00213"
    reads = "reward"

    def fit(self, features, k, n):
        """Compute p0 and p1 for every place that a new reward can take among those of the calibration data."""
        self.check_calibration_data(features, k, n)
        self.rewards_, group = np.unique(np.asarray(features, dtype=np.float64), return_inverse=True)
        follow_ups, successes = (np.bincount(group, weights=counts).astype(np.float64) for counts in (n, k))
        self.failed_ = values_with_one_more(follow_ups, successes, 0)
        self.succeeded_ = values_with_one_more(follow_ups, successes, 1)
        return self

    def predict(self, features):
        """Return p1 / (1 - p0 + p1), of shape (rows, 1)."""
        failed, succeeded = self.pairs(features).T
        return (succeeded / (1 - failed + succeeded))[:, None]

    def pairs(self, features):
        """Return p0 and p1 of each reward, of shape (rows, 2), with 0 <= p0 <= p1 <= 1 and p0 < 1, p1 > 0."""
        self.check_fitted()
        self.check_features(features)
        below = np.searchsorted(self.rewards_, features, side="left")
        met = np.searchsorted(self.rewards_, features, side="right") > below
        place = 2 * below + met
        return np.stack([self.failed_[place], self.succeeded_[place]], axis=1)
