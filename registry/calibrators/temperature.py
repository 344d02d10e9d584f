"""The calibrator `temperature`: temperature scaling (Guo et al., 2017)."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["TemperatureScaling"]

_LARGEST_TEMPERATURE = 100.0


class TemperatureScaling(Calibrator):
    """Divide the logit by one temperature T > 0: the calibrated reward is sigmoid(logit / T).

    T maximises the likelihood of the follow-ups' outcomes. Every follow-up has the same weight.

    Attributes
    ----------
    temperature_ : float
        T in [0.01, 100]. It is an end of this range if the likelihood has no maximum inside, for instance if all
        follow-ups are right. It is 1 if all logits are 0.
    """

    reads = "logit"

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Maximise the binomial likelihood of k of n."""
        from scipy.optimize import brentq
        from scipy.special import expit

        self.check_calibration_data(features, k, n)

        # The negative log-likelihood is convex in 1/T. This is its derivative by 1/T, which is 0 at the minimum.
        def slope(log_temperature: float) -> float:
            return float(np.sum(features * (n * expit(features / np.exp(log_temperature)) - k)))

        hottest = float(np.log(_LARGEST_TEMPERATURE))
        if not np.any(features):
            log_temperature = 0.0
        elif slope(hottest) >= 0:
            log_temperature = hottest
        elif slope(-hottest) <= 0:
            log_temperature = -hottest
        else:
            log_temperature = float(brentq(slope, -hottest, hottest, xtol=1e-12))
        self.temperature_ = float(np.exp(log_temperature))
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sigmoid(logit / T), of shape (rows, 1)."""
        from scipy.special import expit

        self.check_fitted()
        self.check_features(features)
        scaled: NDArray[np.float64] = expit(np.asarray(features, dtype=np.float64) / self.temperature_)
        return scaled[:, None]
