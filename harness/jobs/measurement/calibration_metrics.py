"""Calibration metrics: compare calibrated rewards with success rates. Includes the tables of the two histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from prmcal.db.metrics import RANKING_METRIC, with_terminal
from prmcal.db.statistics.bootstrap import Bootstrap, Ratio, Statistic
from prmcal.errors import DataError
from prmcal.harness.jobs.context import Context, Output, successes_of
from prmcal.harness.jobs.features import PREFIX, require_prefixes, without_terminal
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.results import bootstrap_of, metric_tables
from prmcal.harness.jobs.parameters import CalibrationMetricsParameters, PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.metrics.binned import (
    ReliabilityBins,
    SignedErrorBins,
    reliability_bins,
    signed_error_bins,
)
from prmcal.harness.metrics.measured import statistic_of
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.plugins import metrics

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute"]

_MEDIAN = 0.5


def compute(shard: Shard[CalibrationMetricsParameters], context: Context) -> Output:
    """Return all metrics over the prefixes of the measured trajectories.

    Terminal prefixes are left out, unless the grid counts them. If they are left out, the metrics with them have names
    of their own.
    """
    rewards = context.table(shard, "calibrated", "calibrated_rewards")
    require_prefixes(rewards, "measurement")
    levels = np.unique(rewards["level"]).tolist()
    if _MEDIAN not in levels:
        raise DataError(
            "The calibrator does not predict the median, which is what the metrics measure. Add 0.5 to its 'levels'."
        )
    joined = _by_level(rewards, levels).merge(successes_of(context, shard), on=PREFIX)
    require_prefixes(joined, "measurement")
    parameters, bootstrap = shard.parameters, bootstrap_of(shard)
    chosen = _prefix_rows(joined if parameters.terminal else without_terminal(joined, "measurement"), levels)
    measured = _measured(parameters.metrics, chosen, bootstrap)
    if not parameters.terminal:
        everything = _measured(parameters.metrics, _prefix_rows(joined, levels), bootstrap)
        measured |= {with_terminal(name): statistic for name, statistic in everything.items()}
    results, replicates = metric_tables(measured, bootstrap)
    return Output(
        {
            "results": results,
            "question_results": _question_results(measured),
            "replicates": replicates,
            "reliability_bins": _bins_table(reliability_bins(chosen, parameters.bins)),
            "signed_error_bins": _bins_table(signed_error_bins(chosen)),
        }
    )


def _measured(
    references: Sequence[PluginReference], rows: PrefixRows, bootstrap: Bootstrap
) -> dict[str, Statistic]:
    """Return the metrics by their columns. A metric that is not defined for the rows has none."""
    found: dict[str, Statistic] = {}
    for reference in references:
        with plugin_guard("metric", reference.name, "measure"):
            metric = reference.build(metrics)
            # All levels of a point estimate have the same rows, so they are measured once.
            by_rows: dict[PrefixRows, Statistic | None] = {}
            for column, level in metric.columns(reference.name, rows.levels).items():
                own = rows if level is None else rows.at(level)
                if own not in by_rows:
                    by_rows[own] = statistic_of(metric, own, bootstrap)
                statistic = by_rows[own]
                if statistic is not None:
                    found[column] = statistic
    return found


def _question_results(measured: Mapping[str, Statistic]) -> pd.DataFrame:
    """Return the linearised values of the questions, by which calibrators are ranked over several cells."""
    import pandas as pd

    ranking = measured.get(RANKING_METRIC)
    if not isinstance(ranking, Ratio):
        raise DataError(
            "Some prefixes have only one follow-up, so their noise is not known, and the corrected Brier score cannot "
            "rank calibrators. Measure with at least 2 follow-ups."
        )
    columns = {"question_id": ranking.question_ids, "metric": RANKING_METRIC, "value": ranking.linearised()}
    return pd.DataFrame(columns)


def _by_level(rewards: pd.DataFrame, levels: Sequence[float]) -> pd.DataFrame:
    """Return one row per prefix, with a column for the reward of each level. They have one row per prefix and level."""
    tables = [rewards[rewards["level"] == level].reset_index(drop=True) for level in levels]
    prefixes = tables[0][PREFIX]
    if not all(prefixes.equals(table[PREFIX]) for table in tables[1:]):
        raise DataError("The calibrator predicts other prefixes at one level than at another. Run it again.")
    return prefixes.assign(
        **{_column(level): table["reward"] for level, table in zip(levels, tables, strict=True)}
    )


def _column(level: float) -> str:
    return f"reward {level}"


def _prefix_rows(joined: pd.DataFrame, levels: Sequence[float]) -> PrefixRows:
    """Return the prefixes with their success counts and the rewards of all levels."""
    return PrefixRows(
        joined[_column(_MEDIAN)].to_numpy(np.float64),
        joined["successes"].to_numpy(np.int64),
        joined["follow_ups"].to_numpy(np.int64),
        joined["question_id"].to_numpy(),
        joined["terminal"].to_numpy(bool),
        tuple(levels),
        joined[[_column(level) for level in levels]].to_numpy(np.float64),
    )


def _bins_table(bins: ReliabilityBins | SignedErrorBins) -> pd.DataFrame:
    import pandas as pd

    numbers = np.arange(len(bins.count), dtype=np.int32)
    return pd.DataFrame({"bin": numbers, **vars(bins), "count": bins.count.astype(np.int32)})
