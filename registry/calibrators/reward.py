"""Calibrators that map the reward by a curve: `uncalibrated`, `histogram`, `isotonic`, `spline` and `venn-abers`.

The last one is inductive Venn-Abers prediction (Vovk, Petej and Fedorova, 2015).
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prmcal.arrays import Floats, Ints
from prmcal.registry.calibrators.logit import CurveCalibrator
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.plugin import Count


class Uncalibrated(Calibrator):
    """Return the PRM's reward unchanged. ``fit`` only checks the data."""

    reads, learns = "reward", False

    def fit(self, features: Floats, k: Ints, n: Ints) -> Self:
        """Check the data. There is nothing to learn."""
        self.check_calibration_data(features, k, n)
        return self

    def predict(self, features: Floats) -> Floats:
        """Return the rewards, of shape (rows, 1)."""
        self.check_features(features)
        return np.array(features, dtype=np.float64)[:, None]


@dataclass(eq=False)
class HistogramBinning(CurveCalibrator):
    """Map the reward to the success rate of its bin: the sum of k over the sum of n.

    The success rate of an empty bin is interpolated linearly between the centres of the nearest bins with calibration
    prefixes. Outside of these, it is that of the nearest one.

    scikit-learn's KBinsDiscretizer has the same inner edges of bins with equal numbers, but its bins of equal width
    begin at the lowest reward and not at 0. NumPy alone is enough to use a fitted calibrator.

    Attributes
    ----------
    edges_ : ndarray of shape (bins + 1,), float64
        The edges of the bins, from 0 to 1. Each bin contains its lower edge, and the last one also 1.
    success_rates_ : ndarray of shape (bins,), float64
        The prediction of each bin.
    """

    citation = "Zadrozny and Elkan (2001), ICML"
    reads = "reward"
    version = "2"

    bins: Count = 10
    """The number of bins over [0, 1]."""
    strategy: Literal["uniform", "quantile"] = "uniform"
    """Bins of equal width, or bins with equal numbers of follow-ups. Equal rewards are in the same bin, so there can be
    fewer quantile bins."""

    def fit(self, features: Floats, k: Ints, n: Ints) -> Self:
        """Compute the success rate of each bin."""
        self.check_calibration_data(features, k, n)
        self.edges_ = self._edges(features, n)
        index = _bin_index(features, self.edges_)
        bins = len(self.edges_) - 1
        successes = np.bincount(index, weights=k, minlength=bins)
        follow_ups = np.bincount(index, weights=n, minlength=bins)
        filled = follow_ups > 0
        centres = (self.edges_[:-1] + self.edges_[1:]) / 2
        self.success_rates_ = np.interp(centres, centres[filled], successes[filled] / follow_ups[filled])
        return self

    def curve(self, scores: Floats) -> Floats:
        """Return the success rate of the bin of each reward."""
        return self.success_rates_[_bin_index(scores, self.edges_)]

    def _edges(self, features: Floats, n: Ints) -> Floats:
        shares = np.arange(self.bins + 1) / self.bins  # linspace has a fourth edge of 10 bins above .3.
        if self.strategy == "uniform":
            return shares
        inner = np.quantile(features, shares[1:-1], weights=n, method="inverted_cdf")
        return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def _bin_index(features: Floats, edges: Floats) -> NDArray[np.intp]:
    return np.searchsorted(edges[1:-1], features, side="right")


class IsotonicCalibrator(CurveCalibrator):
    """Map the reward to a success rate by a non-decreasing function.

    Fitting minimises the squared error of the success rates k/n, each weighted by its n. Prefixes with equal rewards
    are one point, with their pooled success rate. The fit divides the rewards into blocks, each with one success rate.
    Prediction is constant within a block, linear between the highest reward of a block and the lowest of the next, and
    constant below the first and above the last block. The fit alone does not say what lies between two blocks: the
    paper calls the function piecewise constant (Appendix C), and scikit-learn interpolates, as here.

    Attributes
    ----------
    rewards_, success_rates_ : ndarray of shape (points,), float64
        The lowest and the highest reward of each block, which can be equal, and its success rate. Rewards ascend, and
        success rates do not decrease.
    """

    citation = "Zadrozny and Elkan (2002), KDD, doi:10.1145/775047.775151"
    reads = "reward"

    def fit(self, features: Floats, k: Ints, n: Ints) -> Self:
        """Fit by the pool-adjacent-violators algorithm of scikit-learn."""
        from sklearn.isotonic import IsotonicRegression

        self.check_calibration_data(features, k, n)
        regression = IsotonicRegression(y_min=0.0, y_max=1.0)
        regression.fit(np.asarray(features, dtype=np.float64), k / n, sample_weight=n.astype(np.float64))
        self.rewards_ = np.asarray(regression.X_thresholds_, dtype=np.float64)
        self.success_rates_ = np.asarray(regression.y_thresholds_, dtype=np.float64)
        return self

    def curve(self, scores: Floats) -> Floats:
        """Return the interpolated success rate at each reward."""
        return np.clip(np.interp(scores, self.rewards_, self.success_rates_), 0.0, 1.0)


Knots = Annotated[int, Field(ge=2)]


@dataclass(eq=False)
class SplineCalibration(CurveCalibrator):
    """Add to the reward the slope of a smooth curve through its cumulative error.

    Sort the calibration prefixes by their reward s, and let t in [0, 1] be the share of the follow-ups up to a reward.
    The cumulative error D(t) is the sum of k - n s up to there, divided by the total number of follow-ups. Its slope is
    the success rate minus the reward at that place. A natural cubic spline is fitted to D by least squares, where the
    weight of a point is its number of follow-ups. The calibrated reward is s plus the slope of the spline, clipped to
    [0, 1], and linear in s between the rewards of the calibration data (section 4 of Gupta et al., 2021, "Calibration
    of Neural Networks using Splines").

    The map need not be monotone. Where the PRM orders prefixes wrongly, it corrects this. scikit-learn's
    SplineTransformer has no natural splines.

    Attributes
    ----------
    rewards_, success_rates_ : ndarray of shape (points,), float64
        The distinct rewards of the calibration data, ascending, and their calibrated rewards.

    Notes
    -----
    Prefixes with equal rewards are one step of t, and get the mean slope of the spline over this step. For steps of
    a single prefix, this is the slope that Gupta et al. use, up to terms of the order of 1 / prefixes.
    """

    citation = "Gupta et al. (2021), ICLR, arXiv:2006.12800"
    reads = "reward"

    knots: Knots = 6
    """The number of knots of the spline, which are evenly spaced over [0, 1]; at least 2. There are fewer if there are
    fewer distinct rewards."""

    def fit(self, features: Floats, k: Ints, n: Ints) -> Self:
        """Fit the spline to the cumulative error."""
        from scipy.interpolate import CubicSpline

        self.check_calibration_data(features, k, n)
        rewards, group = np.unique(np.asarray(features, dtype=np.float64), return_inverse=True)
        follow_ups = np.bincount(group, weights=n)
        errors = np.bincount(group, weights=k) - follow_ups * rewards
        total = follow_ups.sum()
        shares = np.concatenate([[0.0], np.cumsum(follow_ups) / total])
        cumulative = np.concatenate([[0.0], np.cumsum(errors) / total])
        count = min(self.knots, len(shares))
        # The natural splines of the unit vectors: a spline is linear in its values at the knots.
        basis = CubicSpline(np.linspace(0, 1, count), np.eye(count), bc_type="natural")(shares)
        weights = np.sqrt(np.concatenate([[follow_ups.mean()], follow_ups]))
        values = np.linalg.lstsq(basis * weights[:, None], cumulative * weights, rcond=None)[0]
        self.rewards_ = rewards
        self.success_rates_ = np.clip(rewards + np.diff(basis @ values) / np.diff(shares), 0.0, 1.0)
        return self

    def curve(self, scores: Floats) -> Floats:
        """Return the calibrated rewards. They are constant outside of the calibration data."""
        return np.interp(scores, self.rewards_, self.success_rates_)


_Point = tuple[float, float]


class _Hull:
    """The lower convex hull of points that are added at one end. The last one can be taken back.

    It is kept as a stack. `sign` is 1 if points are added to the right, where slopes become larger, and -1 if they are
    added to the left, where slopes become smaller.
    """

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.points: list[_Point] = []
        self.slopes: list[float] = []
        """The slope before each point but the first, times the sign, ascending."""
        self.removed: list[tuple[list[_Point], list[float]]] = []

    def add(self, point: _Point) -> None:
        """Add a point beyond all others, and remove those that are no longer on the hull."""
        points, slopes = self.points, self.slopes
        gone_points: list[_Point] = []
        gone_slopes: list[float] = []
        while slopes and self.sign * _slope(points[-1], point) <= slopes[-1]:
            gone_points.append(points.pop())
            gone_slopes.append(slopes.pop())
        if points:
            slopes.append(self.sign * _slope(points[-1], point))
        points.append(point)
        self.removed.append((gone_points, gone_slopes))

    def take_back(self) -> None:
        """Undo the last addition."""
        self.points.pop()
        if self.points:
            self.slopes.pop()
        points, slopes = self.removed.pop()
        self.points += reversed(points)
        self.slopes += reversed(slopes)

    def touched(self, slope: float) -> _Point:
        """Return a point in which a line of this slope touches the hull from below."""
        return self.points[bisect_left(self.slopes, self.sign * slope)]


def values_with_one_more(follow_ups: Floats, successes: Floats, outcome: int) -> Floats:
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
    found = [float(y[-1] / x[-1])]
    for place in range(2 * len(x) - 1):
        # At a point itself, the outcome joins it: the point before it is on the left, and its own end on the right.
        if place % 2 == 0:
            left.add((x[place // 2] - 1, y[place // 2] - outcome))
        else:
            right.take_back()
        found.append(_bridge(left, right, found[-1]))
    return np.clip(np.array(found[1:]), 0.0, 1.0)


def _bridge(left: _Hull, right: _Hull, guess: float) -> float:
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


def _slope(first: _Point, second: _Point) -> float:
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

    def fit(self, features: Floats, k: Ints, n: Ints) -> Self:
        """Compute p0 and p1 for every place that a new reward can take among those of the calibration data."""
        self.check_calibration_data(features, k, n)
        self.rewards_, group = np.unique(np.asarray(features, dtype=np.float64), return_inverse=True)
        follow_ups, successes = (np.bincount(group, weights=each).astype(np.float64) for each in (n, k))
        self.failed_ = values_with_one_more(follow_ups, successes, 0)
        self.succeeded_ = values_with_one_more(follow_ups, successes, 1)
        return self

    def predict(self, features: Floats) -> Floats:
        """Return p1 / (1 - p0 + p1), of shape (rows, 1)."""
        failed, succeeded = self.pairs(features).T
        rewards: Floats = succeeded / (1 - failed + succeeded)
        return rewards[:, None]

    def pairs(self, features: Floats) -> Floats:
        """Return p0 and p1 of each reward, of shape (rows, 2), with 0 <= p0 <= p1 <= 1 and p0 < 1, p1 > 0."""
        self.check_fitted()
        self.check_features(features)
        below = np.searchsorted(self.rewards_, features, side="left")
        met = np.searchsorted(self.rewards_, features, side="right") > below
        place = 2 * below + met
        return np.stack([self.failed_[place], self.succeeded_[place]], axis=1)
