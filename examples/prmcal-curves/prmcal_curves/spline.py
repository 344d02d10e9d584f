"""Spline calibration (Gupta et al., 2021)."""

from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.interpolate import CubicSpline

from prmcal import Calibrator


class SplineCalibration(Calibrator):
    """Add to the reward the slope of a smooth curve through its cumulative error.

    Sort the calibration prefixes by their reward s, and let t in [0, 1] be the share of the follow-ups up to a reward.
    The cumulative error D(t) is the sum of k - n s up to there, divided by the total number of follow-ups. Its slope is
    the success rate minus the reward at that place. A natural cubic spline is fitted to D by least squares, where the
    weight of a point is its number of follow-ups. The calibrated reward is s plus the slope of the spline, clipped to
    [0, 1], and linear in s between the rewards of the calibration data (section 4 of Gupta et al., 2021, "Calibration
    of Neural Networks using Splines").

    The map need not be monotone. Where the PRM orders prefixes wrongly, it corrects this.

    Parameters
    ----------
    knots : int, default 6
        The number of knots, which are evenly spaced over [0, 1]; at least 2. There are fewer if there are fewer
        distinct rewards.

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

    def __init__(self, knots: Annotated[int, Field(ge=2)] = 6):
        self.knots = knots

    def fit(self, features, k, n):
        """Fit the spline to the cumulative error."""
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

    def predict(self, features):
        """Return the calibrated rewards, of shape (rows, 1). They are constant outside of the calibration data."""
        self.check_fitted()
        self.check_features(features)
        return np.interp(features, self.rewards_, self.success_rates_)[:, None]
