"""The calibrator `venn-abers`: inductive Venn-Abers prediction (Vovk, Petej and Fedorova, 2015)."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.calibrator import Calibrator

__all__ = ["VennAbers"]


class VennAbers(Calibrator):
    """Map the reward to the middle of two isotonic fits: one in which it has failed, one in which it has succeeded.

    For a new prefix with reward s, one more follow-up is added to the calibration data: with reward s and the outcome
    0 for the first isotonic fit, and with the outcome 1 for the second. The values of the fits at s are p0 <= p1. The
    calibrated reward is p1 / (1 - p0 + p1), which has the lowest regret of the log loss (section 4 of Vovk et al.,
    2015, "Large-scale probabilistic predictors with and without guarantees of validity"). Every follow-up of the
    calibration data has the same weight, as has the one that is added.

    With much data around s, p0 and p1 are close to each other and to ``isotonic``. With little data, the reward is
    pulled towards 1/2, and it is never 0 or 1.

    Attributes
    ----------
    rewards_ : ndarray of shape (points,), float64
        The distinct rewards of the calibration data, ascending.
    failed_, succeeded_ : ndarray of shape (2 points + 1,), float64
        p0 and p1 below the first reward, at it, between it and the second, at the second, ..., and above the last.
        They do not depend on anything else of s, so nothing is fitted when a reward is predicted.

    Notes
    -----
    **What p0 and p1 are not.** They are not quantiles of the success probability, so they are not used as levels. One
    of them, and it is not known which, is a calibrated probability of one outcome, if all outcomes are exchangeable.
    The outcomes of the follow-ups of one prefix, and those of the prefixes of one question, are not. So the validity
    does not carry over to prefixes. The distance of p0 and p1 says how much one more outcome would change the fit.
    """

    citation = "Vovk et al. (2015), NeurIPS, arXiv:1511.00213"
    reads = "reward"

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        """Compute p0 and p1 for every place that a new reward can take among those of the calibration data."""
        from prmcal.registry.calibrators.venn_abers.added import values_with_one_more

        self.check_calibration_data(features, k, n)
        self.rewards_, group = np.unique(np.asarray(features, dtype=np.float64), return_inverse=True)
        follow_ups, successes = (np.bincount(group, weights=each).astype(np.float64) for each in (n, k))
        self.failed_ = values_with_one_more(follow_ups, successes, 0)
        self.succeeded_ = values_with_one_more(follow_ups, successes, 1)
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return p1 / (1 - p0 + p1), of shape (rows, 1)."""
        failed, succeeded = self.pairs(features).T
        rewards: NDArray[np.float64] = succeeded / (1 - failed + succeeded)
        return rewards[:, None]

    def pairs(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return p0 and p1 of each reward, of shape (rows, 2), with 0 <= p0 <= p1 <= 1 and p0 < 1, p1 > 0."""
        self.check_fitted()
        self.check_features(features)
        below = np.searchsorted(self.rewards_, features, side="left")
        met = np.searchsorted(self.rewards_, features, side="right") > below
        place = 2 * below + met
        return np.stack([self.failed_[place], self.succeeded_[place]], axis=1)
