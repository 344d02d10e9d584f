"""The calibrator `isotonic`: isotonic regression (Zadrozny and Elkan, 2002)."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["IsotonicCalibrator"]


class IsotonicCalibrator(Calibrator):
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

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Fit by the pool-adjacent-violators algorithm of scikit-learn."""
        from sklearn.isotonic import IsotonicRegression

        self.check_calibration_data(features, k, n)
        regression = IsotonicRegression(y_min=0.0, y_max=1.0)
        regression.fit(np.asarray(features, dtype=np.float64), k / n, sample_weight=n.astype(np.float64))
        self.rewards_ = np.asarray(regression.X_thresholds_, dtype=np.float64)
        self.success_rates_ = np.asarray(regression.y_thresholds_, dtype=np.float64)
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the interpolated success rate at each reward, of shape (rows, 1)."""
        self.check_fitted()
        self.check_features(features)
        values = np.interp(features, self.rewards_, self.success_rates_)
        return np.clip(values, 0.0, 1.0)[:, None]
