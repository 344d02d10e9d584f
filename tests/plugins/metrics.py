"""Metrics of a user, in a file of their own: one of each form."""

# mypy: ignore-errors

import numpy as np

from prmcal import Metric, QuestionRatio, UnderWeights, metric


@metric("absolute_error")
class AbsoluteError(Metric):
    """Mean absolute difference between reward and success rate."""

    title, better = "Absolute error", "lower"

    def measure(self, rows):
        return np.abs(rows.reward - rows.success_rate)


@metric("share_above")
class ShareAbove(Metric):
    """How often a follow-up of a prefix with a reward of at least the bound succeeds."""

    better = "higher"

    def __init__(self, bound: float = 0.5):
        self.bound = bound

    def measure(self, rows):
        above = rows.reward >= self.bound
        if not above.any():
            return None
        return QuestionRatio(
            rows.totals(above * rows.successes), rows.totals(above * rows.follow_ups), (0, 1)
        )


@metric("spread")
class Spread(Metric):
    """Standard deviation of the mean errors of questions."""

    better = "lower"

    def measure(self, rows):
        error = rows.totals(rows.reward - rows.success_rate) / rows.counts

        def spread(weights):
            shares = weights / weights.sum(axis=1, keepdims=True)
            return np.sqrt(np.maximum(shares @ error**2 - (shares @ error) ** 2, 0))

        return UnderWeights(spread, above_zero=True)


@metric("mean_reward")
class MeanReward(Metric):
    """Mean reward."""

    each_level = True

    def measure(self, rows):
        return rows.reward


@metric("broken")
class Broken(Metric):
    """Returns its mean."""

    def measure(self, rows):
        return rows.reward.mean()
