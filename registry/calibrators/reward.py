"""Calibrators that map the reward by a curve: `uncalibrated`, `histogram` and `isotonic`."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Floats, Ints
from prmcal.registry.calibrators.scores import CurveCalibrator
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.plugin import Count


class Uncalibrated(Calibrator):
    """Return the PRM's reward unchanged. ``fit`` only checks the data."""

    reads, learns = "reward", False

    def fit(self, features: Floats, k: Ints, n: Ints) -> Self:
        """Check the data. There is nothing to learn."""
        self.check_calibration_data(features, k, n)
        return self

    def predict(self, features: Floats) -> Floats:
        """Return the rewards, of shape (rows, 1)."""
        self.check_features(features)
        return np.array(features, dtype=np.float64)[:, None]


@dataclass(eq=False)
class Histogram(CurveCalibrator):
    """Map the reward to the success rate of its bin: the sum of k over the sum of n.

    The success rate of an empty bin is interpolated linearly between the centres of the nearest bins with calibration
    prefixes. Outside of these centres, the reward is the rate of the nearest bin with prefixes.

    scikit-learn's KBinsDiscretizer has the same inner edges of bins with equal numbers, but its bins of equal width
    begin at the lowest reward and not at 0. NumPy alone is enough to use a fitted calibrator.

    Attributes
    ----------
    edges_ : ndarray of shape (bins + 1,), float64
        The edges of the bins, from 0 to 1. Each bin contains its lower edge, and the last one also 1.
    success_rates_ : ndarray of shape (bins,), float64
        The prediction of each bin.
    """

    plugin_name = "histogram"
    citation = "Zadrozny and Elkan (2001), ICML"
    reads = "reward"
    version = "2"

    bins: Count = 10
    """The number of bins over [0, 1]."""
    strategy: Literal["uniform", "quantile"] = "uniform"
    """Bins of equal width, or bins with equal numbers of follow-ups. Equal rewards are in the same bin, so there can be
    fewer quantile bins."""

    def learn(self, features: Floats, k: Ints, n: Ints) -> None:
        """Compute the success rate of each bin."""
        self.edges_ = self._edges(features, n)
        index = _bin_index(features, self.edges_)
        bins = len(self.edges_) - 1
        successes = np.bincount(index, weights=k, minlength=bins)
        follow_ups = np.bincount(index, weights=n, minlength=bins)
        filled = follow_ups > 0
        centres = (self.edges_[:-1] + self.edges_[1:]) / 2
        self.success_rates_ = np.interp(centres, centres[filled], successes[filled] / follow_ups[filled])

    def curve(self, features: Floats) -> Floats:
        """Return the success rate of the bin of each reward."""
        return self.success_rates_[_bin_index(features, self.edges_)]

    def _edges(self, features: Floats, n: Ints) -> Floats:
        shares = np.arange(self.bins + 1) / self.bins  # linspace has a fourth edge of 10 bins above .3.
        if self.strategy == "uniform":
            return shares
        inner = np.quantile(features, shares[1:-1], weights=n, method="inverted_cdf")
        return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def _bin_index(features: Floats, edges: Floats) -> NDArray[np.intp]:
    return np.searchsorted(edges[1:-1], features, side="right")


class Isotonic(CurveCalibrator):
    """Map the reward to a success rate by a non-decreasing function.

    Fitting minimises the squared error of the success rates k/n, each weighted by its n. Prefixes with equal rewards
    are one point, with their pooled success rate. The fit divides the rewards into blocks, each with one success rate.
    Prediction is constant within a block, linear between the highest reward of a block and the lowest of the next, and
    constant below the first and above the last block. The fit alone does not define values between two blocks: the
    paper calls the function piecewise constant (Appendix C), and scikit-learn interpolates, as here.

    Attributes
    ----------
    rewards_, success_rates_ : ndarray of shape (points,), float64
        The lowest and the highest reward of each block, which can be equal, and its success rate. Rewards ascend, and
        success rates do not decrease.
    """

    plugin_name = "isotonic"
    citation = "Zadrozny and Elkan (2002), KDD, doi:10.1145/775047.775151"
    reads = "reward"

    def learn(self, features: Floats, k: Ints, n: Ints) -> None:
        """Fit by the pool-adjacent-violators algorithm of scikit-learn."""
        from sklearn.isotonic import IsotonicRegression

        regression = IsotonicRegression(y_min=0.0, y_max=1.0)
        regression.fit(features, k / n, sample_weight=n.astype(np.float64))
        self.rewards_ = np.asarray(regression.X_thresholds_, dtype=np.float64)
        self.success_rates_ = np.asarray(regression.y_thresholds_, dtype=np.float64)

    def curve(self, features: Floats) -> Floats:
        """Return the interpolated success rate at each reward."""
        return np.clip(np.interp(features, self.rewards_, self.success_rates_), 0.0, 1.0)
