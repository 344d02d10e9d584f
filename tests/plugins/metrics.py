"""Metrics of a user, in a file of their own: one of each form."""

# mypy: ignore-errors

import numpy as np

from prmcal import AbsoluteSum, Metric, QuestionRatio, metric


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
        return QuestionRatio(rows.totals(above * rows.successes), rows.totals(above * rows.follow_ups), (0, 1))


@metric("spread")
class Spread(Metric):
    """Mean absolute error of low and of high rewards."""

    better = "lower"

    def measure(self, rows):
        low = rows.reward < 0.5
        error = rows.reward - rows.success_rate
        totals = np.stack([rows.totals(error * half) for half in (low, ~low)], axis=1)
        counts = rows.counts
        return AbsoluteSum(lambda weights: (weights @ totals) / (weights @ counts)[:, None])


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
