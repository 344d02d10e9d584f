"""Histogram binning (Zadrozny and Elkan, 2001): a reward becomes the success rate measured in its bin."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["HistogramBinning"]


class HistogramBinning(Calibrator):
    """The pooled success rate, all k over all n, of the bin that the reward falls into.

    A bin without a calibration prefix takes the value on the straight line between the nearest bins that have
    some, at the bins' centres; beyond the outermost of those, theirs.

    Parameters
    ----------
    bins : int, default 10
        Bins over [0, 1].
    strategy : {"uniform", "quantile"}, default "uniform"
        Equal width, or equal numbers of follow-ups. Equal rewards share a bin, so these can be fewer.

    Attributes
    ----------
    edges_ : ndarray of shape (bins + 1,), float64
        From 0 to 1. An edge belongs to the bin that begins there, 1 to the last.
    success_rates_ : ndarray of shape (bins,), float64
        The reward that each bin predicts.
    """

    reads = "reward"

    def __init__(self, bins: int = 10, strategy: Literal["uniform", "quantile"] = "uniform") -> None:
        self.bins = bins
        self.strategy = strategy

    def check_arguments(self) -> None:
        """Raise ValueError if there is not at least one bin, or no such strategy."""
        if not isinstance(self.bins, int) or isinstance(self.bins, bool) or self.bins < 1:
            raise ValueError(f"The 'bins' parameter must be an int in [1, inf). Got {self.bins!r} instead.")
        if self.strategy not in ("uniform", "quantile"):
            raise ValueError(
                f"The 'strategy' parameter must be 'uniform' or 'quantile'. Got {self.strategy!r} instead."
            )

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Pool the follow-ups of each bin."""
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

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the success rate of each reward's bin, of shape (rows, 1)."""
        self.check_fitted()
        self.check_features(features)
        return self.success_rates_[_bin_index(features, self.edges_)][:, None]

    def _edges(self, features: NDArray[np.float64], n: NDArray[np.int64]) -> NDArray[np.float64]:
        shares = np.linspace(0.0, 1.0, self.bins + 1)
        if self.strategy == "uniform":
            return shares
        inner = np.quantile(features, shares[1:-1], weights=n, method="inverted_cdf")
        return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def _bin_index(features: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.intp]:
    return np.searchsorted(edges[1:-1], features, side="right")
