"""Calibration metrics: calibrated rewards against Monte Carlo success rates, with the tables of the two pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from harness.context import Context, Output, successes_of
from harness.jobs.fit import PREFIX
from harness.jobs.measuring import bootstrap_of, measured
from harness.metrics.binned import reliability_bins, signed_error_bins
from harness.metrics.calibration import calibration_metrics
from harness.metrics.rows import PrefixRows
from harness.plan import Shard
from registry.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute"]

_MEDIAN = 0.5


def compute(shard: Shard, context: Context) -> Output:
    """All metrics of the point estimate (the median) over the prefixes of the measured trajectories."""
    rewards = context.table(shard, "calibrated", "calibrated_rewards")
    point = rewards[np.isclose(rewards["level"], _MEDIAN)]
    joined = point.merge(successes_of(context, shard), on=PREFIX, validate="one_to_one")
    if joined.empty:
        raise DataError("No measured prefix has a reward: every one was too long for the PRM.")
    rows = PrefixRows(
        joined["reward"].to_numpy(np.float64),
        joined["successes"].to_numpy(np.int64),
        joined["follow_ups"].to_numpy(np.int64),
        joined["question_id"].to_numpy(),
    )
    bootstrap = bootstrap_of(shard)
    bins = shard.parameters["bins"]
    results, replicates = measured(calibration_metrics(rows, bins), bootstrap)
    return Output(
        {
            "results": results,
            "replicates": replicates,
            "reliability_bins": _bins_table(reliability_bins(rows, bootstrap, bins)),
            "signed_error_bins": _bins_table(signed_error_bins(rows)),
        }
    )


def _bins_table(bins: Any) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(vars(bins))
    frame.insert(0, "bin", np.arange(len(frame), dtype=np.int32))
    return frame.astype({"count": "int32"})
