"""Isotonic regression (Zadrozny and Elkan, 2002): the best rising function of the reward."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["IsotonicCalibrator"]


class IsotonicCalibrator(Calibrator):
    """The non-decreasing function of the reward nearest to the success rates, weighted by follow-ups.

    Equal rewards count as one point at their pooled success rate. Between two points the function is linear;
    outside the rewards that were fitted to it is constant.

    Attributes
    ----------
    rewards_, success_rates_ : ndarray of shape (points,), float64
        The function's corners, both ascending.
    """

    reads = "reward"

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Pool adjacent violators."""
        from sklearn.isotonic import IsotonicRegression

        self.check_calibration_data(features, k, n)
        regression = IsotonicRegression(y_min=0.0, y_max=1.0)
        regression.fit(np.asarray(features, dtype=np.float64), k / n, sample_weight=n.astype(np.float64))
        self.rewards_ = np.asarray(regression.X_thresholds_, dtype=np.float64)
        self.success_rates_ = np.asarray(regression.y_thresholds_, dtype=np.float64)
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the function's value at each reward, of shape (rows, 1)."""
        self.check_fitted()
        self.check_features(features)
        values = np.interp(features, self.rewards_, self.success_rates_)
        return np.clip(values, 0.0, 1.0)[:, None]
