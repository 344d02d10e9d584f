"""The log loss of rewards against success rates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.contracts.metric import Metric
from prmcal.registry.contracts.rows import PrefixRows

__all__ = ["LogLoss"]

_SMALLEST = 1e-6


class LogLoss(Metric):
    """The mean of -[y log r + (1 - y) log(1 - r)], in [0, 13.82], with rewards clipped to [1e-6, 1 - 1e-6].

    It is linear in y, so its expectation is the cross-entropy of p and r, and follow-ups add no bias. A perfect
    predictor has the mean entropy of p, which is the same for all calibrators: only differences matter. A reward of 0
    or 1 that is wrong costs up to 13.8.

    Notes
    -----
    Source: Good (1952), "Rational decisions", Journal of the Royal Statistical Society B 14.
    """

    citation = "Good (1952), Journal of the Royal Statistical Society B 14"
    title, better = "Log loss", "lower"
    description = (
        "Mean cross-entropy of reward and success rate; rewards are clipped to 0.000001 from 0 and 1. Even a perfect "
        "predictor is above 0."
    )

    def measure(self, rows: PrefixRows) -> NDArray[np.float64]:
        """Return the cross-entropy of each row."""
        reward = np.clip(rows.reward, _SMALLEST, 1 - _SMALLEST)
        y = rows.success_rate
        loss: NDArray[np.float64] = -(y * np.log(reward) + (1 - y) * np.log1p(-reward))
        return loss
