"""Calibration metrics: compare calibrated rewards with success rates. Includes the tables of the two histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from prmcal.db.metrics import RANKING_METRIC, with_terminal
from prmcal.db.statistics.bootstrap import Bootstrap, Ratio, Statistic
from prmcal.errors import DataError
from prmcal.harness.jobs.context import Context, Output, successes_of
from prmcal.harness.jobs.features import PREFIX, require_prefixes, without_terminal
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

    Coverage is computed at each level, the other metrics for the median. Terminal prefixes are left out, unless the
    grid counts them. If they are left out, the metrics with them have names of their own.
    """
    rewards = context.table(shard, "calibrated", "calibrated_rewards")
    joined = rewards.merge(successes_of(context, shard), on=PREFIX, validate="many_to_one")
    require_prefixes(joined, "measurement")
    if not (joined["level"] == _MEDIAN).any():
        raise DataError(
            "The calibrator does not predict the median, which is what the metrics measure. Add 0.5 to its 'levels'."
        )
    bins, bootstrap = shard.parameters.bins, bootstrap_of(shard)
    chosen = joined if shard.parameters.terminal else without_terminal(joined, "measurement")
    metrics = _metrics(chosen, bins, bootstrap)
    if not shard.parameters.terminal:
        metrics |= {with_terminal(name): metric for name, metric in _metrics(joined, bins, bootstrap).items()}
    results, replicates = metric_tables(metrics, bootstrap)
    rows = _prefix_rows(chosen[chosen["level"] == _MEDIAN])
    return Output(
        {
            "results": results,
            "question_results": _question_results(metrics),
            "replicates": replicates,
            "reliability_bins": _bins_table(reliability_bins(rows, bins)),
            "signed_error_bins": _bins_table(signed_error_bins(rows)),
        }
    )


def _metrics(joined: pd.DataFrame, bins: int, bootstrap: Bootstrap) -> dict[str, Statistic]:
    levels = {level: joined[joined["level"] == level] for level in np.unique(joined["level"])}
    by_level = {level: _prefix_rows(table) for level, table in levels.items()}
    terminal = levels[_MEDIAN]["terminal"].to_numpy(bool)
    return calibration_metrics(by_level[_MEDIAN], bins, bootstrap) | coverage_metrics(by_level, terminal)


def _question_results(metrics: Mapping[str, Statistic]) -> pd.DataFrame:
    """Return the linearised values of the questions, by which calibrators are ranked over several cells."""
    import pandas as pd

    ranking = metrics[RANKING_METRIC]
    assert isinstance(ranking, Ratio)
    columns = {"question_id": ranking.question_ids, "metric": RANKING_METRIC, "value": ranking.linearised()}
    return pd.DataFrame(columns)


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
