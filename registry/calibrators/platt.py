"""The calibrator `platt`: logistic regression on the logit (Platt, 1999)."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["PlattScaling"]


class PlattScaling(Calibrator):
    """Map the logit to sigmoid(slope * logit + offset), with the slope and the offset of the largest likelihood.

    Every follow-up has the same weight. Unlike ``temperature``, it can lower all rewards, so it also repairs a PRM that
    overestimates by the same log-odds everywhere. Platt (1999) replaces the labels 0 and 1 by values inside, since he
    has one label for each point. Here the counts k of n themselves say how certain a label is, so they are not changed.

    Attributes
    ----------
    slope_, offset_ : float
        A slope below 0 is possible, and then the order of the rewards is reversed. Where the likelihood has no single
        maximum, for instance if all follow-ups are right, a weak pull towards 1 and 0 decides.
    """

    citation = "Platt (1999), Advances in Large Margin Classifiers"
    reads = "logit"

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Compute slope and offset by Newton's method."""
        from prmcal.registry.calibrators.logistic import fit_logistic

        self.check_calibration_data(features, k, n)
        logits = np.asarray(features, dtype=np.float64)
        inputs = np.stack([logits, np.ones_like(logits)], axis=1)
        (slope, offset), _ = fit_logistic(inputs, k, n, np.array([1.0, 0.0]))
        self.slope_, self.offset_ = float(slope), float(offset)
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sigmoid(slope * logit + offset), of shape (rows, 1)."""
        from scipy.special import expit

        self.check_fitted()
        self.check_features(features)
        rewards: NDArray[np.float64] = expit(
            self.slope_ * np.asarray(features, dtype=np.float64) + self.offset_
        )
        return rewards[:, None]
