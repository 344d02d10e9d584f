"""The calibrator `temperature`: temperature scaling (Guo et al., 2017)."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["TemperatureScaling"]

_HOTTEST = float(np.log(100.0))
_POINTS = 401


class TemperatureScaling(Calibrator):
    """Divide the logit by one temperature T > 0: the calibrated reward is sigmoid(logit / T).

    T is the best one for the outcomes of the follow-ups of the calibration prefixes. Every follow-up has the same
    weight.

    Parameters
    ----------
    loss : {"likelihood", "brier"}, default "likelihood"
        ``likelihood`` maximises the likelihood of the outcomes, as Guo et al. do. ``brier`` minimises the Brier score,
        which is the paper's example of a calibration metric to choose T by (Appendix C).

    Attributes
    ----------
    temperature_ : float
        T in [0.01, 100]. It is an end of this range if the loss has no minimum inside, for instance if all follow-ups
        are right. It is 1 if all logits are 0.
    """

    citation = "Guo et al. (2017), ICML, arXiv:1706.04599"
    reads = "logit"

    def __init__(self, loss: Literal["likelihood", "brier"] = "likelihood") -> None:
        self.loss = loss

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Choose T for k of n successes."""
        self.check_calibration_data(features, k, n)
        choose = _most_likely if self.loss == "likelihood" else _least_brier
        self.temperature_ = float(np.exp(choose(features, k, n))) if np.any(features) else 1.0
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sigmoid(logit / T), of shape (rows, 1)."""
        from scipy.special import expit

        self.check_fitted()
        self.check_features(features)
        scaled: NDArray[np.float64] = expit(np.asarray(features, dtype=np.float64) / self.temperature_)
        return scaled[:, None]


def _most_likely(logits: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> float:
    """The log of the temperature with the largest binomial likelihood."""
    from scipy.optimize import brentq
    from scipy.special import expit

    # The negative log-likelihood is convex in 1/T. This is its derivative by 1/T, which is 0 at the minimum.
    def slope(log_temperature: float) -> float:
        return float(np.sum(logits * (n * expit(logits / np.exp(log_temperature)) - k)))

    if slope(_HOTTEST) >= 0:
        return _HOTTEST
    if slope(-_HOTTEST) <= 0:
        return -_HOTTEST
    return float(brentq(slope, -_HOTTEST, _HOTTEST, xtol=1e-12))


def _least_brier(logits: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> float:
    """The log of the temperature with the lowest Brier score.

    The score can have several minima. The search begins at the best of many temperatures.
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    def score(log_temperature: float) -> float:
        return float(np.sum(n * (expit(logits / np.exp(log_temperature)) - k / n) ** 2))

    def slope(log_temperature: float) -> float:  # Half of the derivative of the score by 1/T.
        rewards = expit(logits / np.exp(log_temperature))
        return float(np.sum(logits * (n * rewards - k) * rewards * (1 - rewards)))

    tried = np.linspace(-_HOTTEST, _HOTTEST, _POINTS)
    best = int(np.argmin([score(each) for each in tried]))
    colder, hotter = float(tried[max(best - 1, 0)]), float(tried[min(best + 1, _POINTS - 1)])
    if slope(colder) > 0 > slope(hotter):
        return float(brentq(slope, colder, hotter, xtol=1e-12))
    return float(tried[best])
