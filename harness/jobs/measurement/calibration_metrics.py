"""Calibration metrics: compare calibrated rewards with success rates. Includes the tables of the two histograms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prmcal.errors import DataError
from prmcal.harness.jobs.context import Context, Output, successes_of
from prmcal.harness.jobs.features import PREFIX
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.results import bootstrap_of, metric_tables
from prmcal.harness.jobs.parameters import CalibrationMetricsParameters
from prmcal.harness.metrics.binned import (
    ReliabilityBins,
    SignedErrorBins,
    reliability_bins,
    signed_error_bins,
)
from prmcal.harness.metrics.calibration import calibration_metrics
from prmcal.harness.metrics.coverage import coverage_metrics
from prmcal.harness.metrics.rows import PrefixRows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute"]

_MEDIAN = 0.5


def compute(shard: Shard[CalibrationMetricsParameters], context: Context) -> Output:
    """Return all metrics over the prefixes of the measured trajectories.

    Coverage is computed at each level, the other metrics for the median.
    """
    rewards = context.table(shard, "calibrated", "calibrated_rewards")
    joined = rewards.merge(successes_of(context, shard), on=PREFIX, validate="many_to_one")
    if joined.empty:
        raise DataError("No measured prefix has a reward: every one was too long for the PRM.")
    levels = {level: joined[joined["level"] == level] for level in np.unique(joined["level"])}
    if _MEDIAN not in levels:
        raise DataError(
            "The calibrator does not predict the median, which is what the metrics measure. Add 0.5 to its 'levels'."
        )
    by_level = {level: _prefix_rows(table) for level, table in levels.items()}
    rows = by_level[_MEDIAN]
    bootstrap = bootstrap_of(shard)
    bins = shard.parameters.bins
    terminal = levels[_MEDIAN]["terminal"].to_numpy(bool)
    metrics = calibration_metrics(rows, bins) | coverage_metrics(by_level, terminal)
    results, replicates = metric_tables(metrics, bootstrap)
    return Output(
        {
            "results": results,
            "replicates": replicates,
            "reliability_bins": _bins_table(reliability_bins(rows, bootstrap, bins)),
            "signed_error_bins": _bins_table(signed_error_bins(rows)),
        }
    )


def _prefix_rows(table: pd.DataFrame) -> PrefixRows:
    return PrefixRows(
        table["reward"].to_numpy(np.float64),
        table["successes"].to_numpy(np.int64),
        table["follow_ups"].to_numpy(np.int64),
        table["question_id"].to_numpy(),
    )


def _bins_table(bins: ReliabilityBins | SignedErrorBins) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(vars(bins))
    frame.insert(0, "bin", np.arange(len(frame), dtype=np.int32))
    return frame.astype({"count": "int32"})
