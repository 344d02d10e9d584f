"""Tables of results with their intervals, and the results of calibrated rewards against success rates."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from prmcal.arrays import Bools, Floats
from prmcal.db.metrics import RANKING_METRIC, with_terminal
from prmcal.db.statistics.bootstrap import Bootstrap, QuestionMean, Ratio, Resampled, Statistic, estimate, intervals
from prmcal.db.statistics.intervals import IntervalRule
from prmcal.errors import DataError
from prmcal.harness.jobs.calibrators import require_prefixes, without_terminal
from prmcal.harness.jobs.context import PREFIX, Context, Output, successes_of
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import CalibrationMetricsParameters, MeasuringParameters, PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.pools import QuestionAxis, level_column
from prmcal.harness.metrics.measured import reliability_bins, signed_error_bins, statistic_of
from prmcal.harness.storage.store import content_key
from prmcal.registry.contracts.data import Level
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.plugins import metrics

_COLUMNS = {"value": np.float64, "low": np.float64, "high": np.float64, "rows": np.int32, "questions": np.int32}

_MEDIAN = 0.5
MetricOf = Callable[[Bools], Ratio]
"""From a selection of questions, as an array of shape (questions,), to a metric of these questions."""


def metric_tables(
    groups: Mapping[Level | None, Mapping[str, Statistic]],
    bootstrap: Bootstrap,
    compared: Collection[str] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return metrics with their 95% intervals as a table, and their bootstrap replicates as another.

    `groups` has metrics by their names, over all questions (None) and by difficulty. For a difficulty, no replicates
    are returned. `compared` has the names whose replicates are returned, by default all. Two cells of a data set have
    the same resamples, so the difference of their replicates is their paired difference. The column `resampled` is a
    hash of the questions that were resampled.
    """
    metrics = groups[None]
    compared_names = [name for name in metrics if compared is None or name in compared]
    known_intervals = intervals(metric for group in groups.values() for metric in group.values())
    estimates: dict[tuple[Level | None, str], Resampled] = {}
    for level, group in groups.items():
        for name, metric in group.items():
            with plugin_guard("metric", name, "measure"):  # It may call functions of a plugin.
                estimates[level, name] = estimate(
                    metric, bootstrap, level is None and name in compared_names, known_intervals.get(metric)
                )
    results = pd.DataFrame(
        {
            "metric": [name for _, name in estimates],
            "question_level": level_column([level for level, _ in estimates]),
            **{
                column: np.array([getattr(value, column) for value in estimates.values()], dtype)
                for column, dtype in _COLUMNS.items()
            },
        }
    )
    replicates_of = {name: estimates[None, name].replicates for name in compared_names}
    counts = [len(values) for values in replicates_of.values()]
    resampled = [content_key(metrics[name].question_ids.tolist()) for name in compared_names]
    replicates = pd.DataFrame(
        {
            # These arrays are repeated without making a Python object of each text.
            "metric": pd.array(list(replicates_of), dtype="str").repeat(counts),
            "resampled": pd.array(resampled, dtype="str").repeat(counts),
            "replicate": np.concatenate([np.arange(count) for count in counts]),
            "value": np.concatenate(list(replicates_of.values())),
        }
    )
    return results, replicates


def mean_of(axis: QuestionAxis, values: Floats, interval: IntervalRule) -> MetricOf:
    """Return a metric: the mean of one value per question, with a rule for its interval.

    The values have the shape (questions,) and belong to the questions of `axis`.
    """
    return lambda selection: QuestionMean(values[selection], axis.question_ids[selection], interval)


def question_output(
    shard: Shard[MeasuringParameters], axis: QuestionAxis, metrics: Mapping[str, MetricOf], rows: int
) -> Output:
    """Return the output of a job with one value for each question and metric: overall, by difficulty, and by question.

    The value of a question is the metric's linearised value: the mean over questions is the result, and the mean over
    resampled questions is the result for these questions, to first order. For a mean of one value per question, it is
    this value. The questions are selected from `axis`, and `rows` is the number of trajectories behind the value of a
    question.
    """
    selections = axis.by_difficulty()
    groups = {level: {name: metric(chosen) for name, metric in metrics.items()} for level, chosen in selections}
    results, replicates = metric_tables(groups, shard.parameters.bootstrap)
    results["rows"] = (results["questions"] * rows).astype("int32")
    by_question = axis.table({name: metric.linearised() for name, metric in groups[None].items()})
    return Output({"results": results, "question_results": by_question, "replicates": replicates})


def compute_calibration_metrics(shard: Shard[CalibrationMetricsParameters], context: Context) -> Output:
    """Return all metrics over the prefixes of the measured trajectories.

    Terminal prefixes are left out, unless the grid counts them. If terminal prefixes are left out, metrics that count
    them have names of their own.
    """
    rewards = context.table(shard, "calibrated", "calibrated_rewards")
    require_prefixes(rewards, "measurement")
    levels = np.unique(rewards["level"]).tolist()
    if _MEDIAN not in levels:
        raise DataError(
            "The calibrator does not predict the median, but the metrics measure the median. Add 0.5 to its 'levels'."
        )
    by_level = rewards.pivot(index=PREFIX, columns="level", values="reward").reset_index()
    joined = by_level.merge(successes_of(context, shard), on=PREFIX)
    require_prefixes(joined, "measurement")
    parameters, bootstrap = shard.parameters, shard.parameters.bootstrap
    prefix_rows = _prefix_rows(joined if parameters.terminal else without_terminal(joined, "measurement"), levels)
    statistics = _statistics(parameters.metrics, prefix_rows, bootstrap)
    if not parameters.terminal:
        with_ends = _statistics(parameters.metrics, _prefix_rows(joined, levels), bootstrap)
        statistics |= {with_terminal(name): statistic for name, statistic in with_ends.items()}
    results, replicates = metric_tables({None: statistics}, bootstrap)
    bins = reliability_bins(prefix_rows, parameters.bins)
    tables = {"results": results, "question_results": _question_results(statistics), "replicates": replicates}
    return Output({**tables, "reliability_bins": bins, "signed_error_bins": signed_error_bins(prefix_rows)})


def _statistics(references: Sequence[PluginReference], rows: PrefixRows, bootstrap: Bootstrap) -> dict[str, Statistic]:
    """Return the metrics by their columns. A metric that is not defined for the rows has no value."""
    statistics: dict[str, Statistic] = {}
    for reference in references:
        with plugin_guard("metric", reference.name, "measure"):
            metric = reference.build(metrics)
            # All levels of a point estimate have the same rows, so they are measured once.
            by_rows: dict[PrefixRows, Statistic | None] = {}
            for column, level in metric.columns(reference.name, rows.levels).items():
                level_rows = rows if level is None else rows.at(level)
                if level_rows not in by_rows:
                    by_rows[level_rows] = statistic_of(metric, level_rows, bootstrap)
                statistic = by_rows[level_rows]
                if statistic is not None:
                    statistics[column] = statistic
    return statistics


def _question_results(statistics: Mapping[str, Statistic]) -> pd.DataFrame:
    """Return the linearised values of the questions, for ranking calibrators over several cells.

    There are no bins if a prefix has only one follow-up: the noise of one draw is unknown.
    """
    ranking = statistics.get(RANKING_METRIC)
    if not isinstance(ranking, Ratio):
        types = {"question_id": "str", "metric": "str", "value": "float64"}
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})
    columns = {"question_id": ranking.question_ids, "metric": RANKING_METRIC, "value": ranking.linearised()}
    return pd.DataFrame(columns)


def _prefix_rows(joined: pd.DataFrame, levels: Sequence[float]) -> PrefixRows:
    """Return the prefixes with their success counts and the rewards of all levels, in a column for each level."""
    k, n = (joined[name].to_numpy(np.int64) for name in ("successes", "follow_ups"))
    question, terminal = joined["question_id"].to_numpy(), joined["terminal"].to_numpy(bool)
    medians, rewards = joined[_MEDIAN].to_numpy(np.float64), joined[list(levels)].to_numpy(np.float64)
    return PrefixRows(medians, k, n, question, terminal, tuple(levels), rewards)
