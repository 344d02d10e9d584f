"""Two calibrators that keep an estimator of scikit-learn, which `skops` saves without a pickle.

prmcal check examples/sklearn_calibrators.py
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from prmcal import Calibrator, calibrator


class SuccessRateRegression(Calibrator):
    """Any regression of scikit-learn of the success rate on the log-odds."""

    reads = "logit"

    def estimator(self) -> Any:
        """Return the estimator, not fitted."""
        raise NotImplementedError

    def fit(self, features: Any, k: Any, n: Any) -> Self:
        """Fit the estimator to the success rates."""
        self.check_calibration_data(features, k, n)
        self.estimator_ = self.estimator().fit(np.clip(features, -30, 30)[:, None], k / n)
        return self

    def predict(self, features: Any) -> Any:
        """Return the predicted success rates, of shape (rows, 1)."""
        self.check_fitted()
        self.check_features(features)
        return np.clip(self.estimator_.predict(np.clip(features, -30, 30)[:, None]), 0, 1)[:, None]


@calibrator("gaussian-process")
class GaussianProcess(SuccessRateRegression):
    """A smooth curve. It is for hundreds of prefixes, not for many thousands."""

    def estimator(self) -> Any:
        """Return a Gaussian process with a squared exponential kernel and noise."""
        return GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.1), optimizer=None, normalize_y=True)


@calibrator("boosted-trees")
class BoostedTrees(SuccessRateRegression):
    """A step function that does not decrease, by gradient boosting."""

    def estimator(self) -> Any:
        """Return boosted trees with a monotonic constraint."""
        return HistGradientBoostingRegressor(max_iter=50, monotonic_cst=[1], early_stopping=False, random_state=0)
