"""Calibrated: the calibrated rewards, at every quantile level, of the test split's measured trajectories."""

from __future__ import annotations

import numpy as np

from prmcal.harness.jobs.context import Context, Output, plugin_guard, require
from prmcal.harness.jobs.features import PREFIX, features_of, scored_prefixes
from prmcal.harness.jobs.job import Shard

__all__ = ["compute"]


def compute(shard: Shard, context: Context) -> Output:
    """One row for each prefix and level; over-long prefixes have none.

    Trajectories beyond the measured ones have no success rates to be compared with, and what IAS reads, the reward of
    the bare question, is the same in all of a question's trajectories.
    """
    import pandas as pd

    name = shard.parameters["calibrator"]["name"]
    calibrator = context.calibrator(shard.parameters["calibrator"]).load(context.input_folder(shard, "fit"))
    rewards = scored_prefixes(context, shard)
    with plugin_guard("calibrator", name, "predict"):
        features = features_of(context, shard, calibrator, rewards)
        predicted = np.asarray(calibrator.predict(features), dtype=np.float64)
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
