"""Calibrated: predict the calibrated rewards of the measured test trajectories at every quantile level."""

from __future__ import annotations

import numpy as np

from prmcal.harness.jobs.context import Context, Output, plugin_guard, require
from prmcal.harness.jobs.features import PREFIX, features_of, scored_prefixes
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import CalibratedParameters

__all__ = ["compute"]


def compute(shard: Shard[CalibratedParameters], context: Context) -> Output:
    """Return one row for each prefix and level. Prefixes that are too long for the PRM have no row.

    The levels are those of the calibrator, and those that the grid asks for besides.

    The other trajectories are not needed: they have no success rates to compare with, and IAS reads the reward of the
    bare question, which all trajectories of a question share.
    """
    import pandas as pd

    reference = shard.parameters.calibrator
    with plugin_guard("calibrator", reference.name, "load"):
        calibrator = context.calibrator(reference).load(context.input_folder(shard, "fit"))
    rewards = scored_prefixes(context, shard)
    with plugin_guard("calibrator", reference.name, "predict"):
        features = features_of(context, shard, calibrator, rewards)
        levels = sorted({*calibrator.levels, *shard.parameters.levels})
        asked = (
            calibrator.predict_at(features, levels)
            if shard.parameters.levels
            else calibrator.predict(features)
        )
        predicted = np.asarray(asked, dtype=np.float64)
        expected = (len(rewards), len(levels))
        require(
            predicted.shape == expected, f"it returned the shape {predicted.shape} instead of {expected}."
        )
        require(not np.isnan(predicted).any(), "it returned NaN.")
        outside = predicted[(predicted < 0) | (predicted > 1)]
        require(not outside.size, f"it returned the reward {outside[:1]}, outside [0, 1].")
        require(bool((np.diff(predicted, axis=1) >= 0).all()), "its quantiles cross.")
    frames = [
        rewards[PREFIX].assign(level=level, reward=predicted[:, column])
        for column, level in enumerate(levels)
    ]
    return Output({"calibrated_rewards": pd.concat(frames, ignore_index=True)})
