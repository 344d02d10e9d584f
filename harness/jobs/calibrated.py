"""Calibrated: the calibrated rewards, at every quantile level, of every scored prefix of the test split."""

from __future__ import annotations

import numpy as np

from harness.context import Context, Output, plugin_guard, require
from harness.jobs.fit import PREFIX, features_of
from harness.plan import Shard

__all__ = ["compute"]


def compute(shard: Shard, context: Context) -> Output:
    """One row for each prefix and level; over-long prefixes have none."""
    import pandas as pd

    name = shard.parameters["calibrator"]["name"]
    calibrator = context.calibrator(shard.parameters["calibrator"]).load(context.input_folder(shard, "fit"))
    rewards = context.table(shard, "score", "rewards")
    rewards = rewards[~rewards["over_long"]]
    with plugin_guard("calibrator", name, "predict"):
        predicted = np.asarray(calibrator.predict(features_of(rewards, calibrator.reads)), dtype=np.float64)
        expected = (len(rewards), len(calibrator.levels))
        require(
            predicted.shape == expected, f"it returned the shape {predicted.shape} instead of {expected}."
        )
        require(not np.isnan(predicted).any(), "it returned NaN.")
        outside = predicted[(predicted < 0) | (predicted > 1)]
        require(not outside.size, f"it returned the reward {outside[:1]}, outside [0, 1].")
        require(bool((np.diff(predicted, axis=1) >= 0).all()), "its quantiles cross.")
    frames = [
        rewards[PREFIX].assign(level=level, reward=predicted[:, column])
        for column, level in enumerate(calibrator.levels)
    ]
    return Output({"calibrated_rewards": pd.concat(frames, ignore_index=True)})
