"""Calibrated: predict the calibrated rewards of the measured test trajectories at every quantile level."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.features import PREFIX, features_of, scored_prefixes
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import CalibratedParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard, require
from prmcal.registry.contracts.calibrator import Calibrator

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute", "predicted_rewards"]


def compute(shard: Shard[CalibratedParameters], context: Context) -> Output:
    """Return one row for each prefix and level. Prefixes that are too long for the PRM have no row.

    The levels are those of the calibrator, and those that the grid asks for besides.

    The other trajectories are not needed: they have no success rates to compare with, and IAS reads the reward of the
    bare question, which all trajectories of a question share.
    """
    reference = shard.parameters.calibrator
    with plugin_guard("calibrator", reference.name, "load"):
        calibrator = context.calibrator(reference).load(context.input_folder(shard, "fit"))
    rewards = scored_prefixes(context, shard)
    with plugin_guard("calibrator", reference.name, "predict"):
        features = features_of(context, shard, calibrator, rewards)
        found = predicted_rewards(calibrator, features, rewards, shard.parameters.levels)
    return Output({"calibrated_rewards": found})


def predicted_rewards(
    calibrator: Calibrator, features: Any, rows: pd.DataFrame, asked: Collection[float] = ()
) -> pd.DataFrame:
    """Return the calibrated rewards of some prefixes, with one row for each prefix and level.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted one.
    features : array-like, HiddenStates or ScoredPrefixes
        What it reads, in the order of `rows`.
    rows : DataFrame
        The prefixes, with the columns of :data:`prmcal.harness.jobs.features.PREFIX`.
    asked : collection of float
        Levels beta besides those of the calibrator.

    Raises
    ------
    PluginFailedError
        If the calibrator does not fulfil its contract.
    """
    import pandas as pd

    levels = sorted({*calibrator.levels, *asked})
    found = calibrator.predict_at(features, levels) if asked else calibrator.predict(features)
    predicted = np.asarray(found, dtype=np.float64)
    expected = (len(rows), len(levels))
    require(predicted.shape == expected, f"it returned the shape {predicted.shape} instead of {expected}.")
    require(not np.isnan(predicted).any(), "it returned NaN.")
    outside = predicted[(predicted < 0) | (predicted > 1)]
    require(not outside.size, f"it returned the reward {outside[:1]}, outside [0, 1].")
    require(bool((np.diff(predicted, axis=1) >= 0).all()), "its quantiles cross.")
    frames = [
        rows[PREFIX].assign(level=level, reward=predicted[:, column]) for column, level in enumerate(levels)
    ]
    return pd.concat(frames, ignore_index=True)
