"""The calibrator `beta`: beta calibration (Kull, Silva Filho and Flach, 2017)."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["BetaCalibration"]

_IDENTITY = np.array([1.0, 1.0, 0.0])
"""The weights of the calibration map that changes nothing."""


class BetaCalibration(Calibrator):
    """Map the reward s to sigmoid(a ln s - b ln(1 - s) + c), with a >= 0 and b >= 0 of the largest likelihood.

    This is equation 3 of Kull et al. (2017). It is exact if the rewards of right and of wrong follow-ups have beta
    distributions. It bends the two ends of the scale independently, which ``platt`` cannot: with a = b, both are the
    same. Every follow-up has the same weight.

    The logarithms are computed from the PRM's logit. So rewards that are rounded to 0 or 1 are not clipped.

    Attributes
    ----------
    a_, b_, c_ : float
        Of the maps with a >= 0 and b >= 0, this is the one with the largest likelihood. Kull et al. fit without the
        bounds, and fit again without an input whose weight is negative. The result is the same if this leaves no
        negative weight.
    """

    citation = "Kull et al. (2017), AISTATS"
    reads = "logit"

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Fit with every choice of the inputs, and keep the best fit without a negative weight."""
        from prmcal.registry.calibrators.logistic import fit_logistic

        self.check_calibration_data(features, k, n)
        inputs = _inputs(features)
        best, lowest = np.zeros(3), np.inf
        # The likelihood is concave. Where it is largest within the bounds, some of a and b are 0, and it is largest
        # without bounds over the others.
        for chosen in ([0, 1, 2], [1, 2], [0, 2], [2]):
            weights, loss = fit_logistic(inputs[:, chosen], k, n, _IDENTITY[chosen])
            found = np.zeros(3)
            found[chosen] = weights
            if np.all(found[:2] >= 0) and loss < lowest:
                best, lowest = found, loss
        self.a_, self.b_, self.c_ = map(float, best)
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sigmoid(a ln s - b ln(1 - s) + c), of shape (rows, 1)."""
        from scipy.special import expit

        self.check_fitted()
        self.check_features(features)
        # Not a product of matrices, which can round differently for one row and for many.
        rises, falls, _ = _inputs(features).T
        rewards: NDArray[np.float64] = expit(self.a_ * rises + self.b_ * falls + self.c_)
        return rewards[:, None]


def _inputs(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln s, -ln(1 - s) and 1, of shape (rows, 3)."""
    logits = np.asarray(logits, dtype=np.float64)
    return np.stack([-np.logaddexp(0, -logits), np.logaddexp(0, logits), np.ones_like(logits)], axis=1)
