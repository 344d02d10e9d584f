"""Fit: one calibrator on the calibration split of one (LLM, PRM)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.context import Context, Output, plugin_guard, require, successes_of
from harness.plan import Shard

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PREFIX", "compute", "features_of"]

PREFIX = ["question_id", "trajectory", "step"]


def compute(shard: Shard, context: Context) -> Output:
    """The fitted calibrator, saved as safetensors and JSON."""
    calibrator = context.calibrator(shard.parameters["calibrator"])
    rewards = context.table(shard, "score", "rewards")
    rows = rewards[~rewards["over_long"]].merge(
        successes_of(context, shard), on=PREFIX, validate="one_to_one"
    )
    with plugin_guard("calibrator", shard.parameters["calibrator"]["name"], "fit"):
        require(len(rows) > 0, "there is no calibration data: every prefix was too long for the PRM.")
        calibrator.fit(
            features_of(rows, calibrator.reads),
            rows["successes"].to_numpy(np.int64),
            rows["follow_ups"].to_numpy(np.int64),
        )
    return Output(save=calibrator.save)


def features_of(rewards: pd.DataFrame, reads: str) -> NDArray[np.float64]:
    """The column that a calibrator reads, shape (rows,), float64."""
    features: NDArray[np.float64] = rewards[reads].to_numpy(np.float64)
    return features
