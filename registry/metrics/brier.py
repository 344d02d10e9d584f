"""The Brier score and the signed error: means over all prefixes.

The metrics are those of "Know What You Don't Know" (Park et al., 2025), section 5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.rows import PrefixRows

__all__ = ["Brier", "CorrectedBrier", "PositiveBrier", "SignedError"]


class Brier(Metric):
    """The Brier score, the mean of (r - y)^2, in [0, 1].

    With n follow-ups a perfect predictor has the mean of p(1 - p)/n: see :class:`CorrectedBrier`.
    """

    citation = "Brier (1950), Monthly Weather Review 78"
    title, better = "Brier", "lower"
    description = "Mean squared difference between reward and success rate."

    def measure(self, rows: PrefixRows) -> NDArray[np.float64]:
        """Return (r - y)^2 of each row."""
        return (rows.reward - rows.success_rate) ** 2


class CorrectedBrier(Metric):
    """The Brier score without the noise of the follow-ups: the mean of (r - y)^2 - y(1 - y)/(n - 1).

    Its expectation is the mean of (r - p)^2, so the value of a perfect predictor can be below 0. Where y is 0 or 1, as
    for every prefix that contains its final answer, nothing is subtracted. It is not defined if a row has only one
    follow-up, from which the noise cannot be estimated.
    """

    title, better = "Brier, corrected", "lower"
    description = (
        "Brier score minus the Monte Carlo noise of the success rates; it can fall below 0 by chance."
    )

    def measure(self, rows: PrefixRows) -> NDArray[np.float64] | None:
        """Return (r - y)^2 - y(1 - y)/(n - 1) of each row, or None if n = 1 in one of them."""
        if np.any(rows.follow_ups < 2):
            return None
        success_rate = rows.success_rate
        noise = success_rate * (1 - success_rate) / (rows.follow_ups - 1)
        return (rows.reward - success_rate) ** 2 - noise


class PositiveBrier(Metric):
    """The mean of max(r - y, 0)^2 over all rows, in [0, 1]. It counts only overestimation."""

    title, better = "Positive Brier", "lower"
    description = "Brier score of overestimation only: rewards below the success rate count as 0."

    def measure(self, rows: PrefixRows) -> NDArray[np.float64]:
        """Return max(r - y, 0)^2 of each row."""
        return np.maximum(rows.reward - rows.success_rate, 0) ** 2


class SignedError(Metric):
    """The mean of r - y, in [-1, 1]. Above 0 the rewards are too high on average."""

    title, better = "Signed error", "near zero"
    description = "Mean of reward minus success rate: above 0 the PRM overestimates."

    def measure(self, rows: PrefixRows) -> NDArray[np.float64]:
        """Return r - y of each row."""
        return rows.reward - rows.success_rate
