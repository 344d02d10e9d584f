"""The calibrator `uncalibrated`: the PRM's own reward, the baseline of every comparison."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["Uncalibrated"]


class Uncalibrated(Calibrator):
    """Return the PRM's reward unchanged. ``fit`` only checks the data."""

    reads = "reward"

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Check the data. There is nothing to learn."""
        self.check_calibration_data(features, k, n)
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rewards, of shape (rows, 1)."""
        self.check_features(features)
        return np.array(features, dtype=np.float64)[:, None]
