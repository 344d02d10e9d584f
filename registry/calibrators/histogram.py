"""The calibrator `histogram`: histogram binning (Zadrozny and Elkan, 2001)."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.ranges import Count

__all__ = ["HistogramBinning"]


class HistogramBinning(Calibrator):
    """Map the reward to the success rate of its bin: the sum of k over the sum of n.

    The success rate of an empty bin is interpolated linearly between the centres of the nearest bins with calibration
    prefixes. Outside of these, it is that of the nearest one.

    Parameters
    ----------
    bins : int, default 10
        The number of bins over [0, 1].
    strategy : {"uniform", "quantile"}, default "uniform"
        Bins of equal width, or bins with equal numbers of follow-ups. Equal rewards are in the same bin, so there can
        be fewer quantile bins.

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

    def __init__(self, bins: Count = 10, strategy: Literal["uniform", "quantile"] = "uniform") -> None:
        self.bins = bins
        self.strategy = strategy

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
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

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the success rate of the bin of each reward, of shape (rows, 1)."""
        self.check_fitted()
        self.check_features(features)
        return self.success_rates_[_bin_index(features, self.edges_)][:, None]

    def _edges(self, features: NDArray[np.float64], n: NDArray[np.int64]) -> NDArray[np.float64]:
        shares = (
            np.arange(self.bins + 1) / self.bins
        )  # Not linspace, whose fourth edge of 10 bins is above .3.
        if self.strategy == "uniform":
            return shares
        inner = np.quantile(features, shares[1:-1], weights=n, method="inverted_cdf")
        return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def _bin_index(features: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.intp]:
    return np.searchsorted(edges[1:-1], features, side="right")
