"""What the measuring jobs write: metrics with their intervals and bootstrap replicates, as tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import (
    Bootstrap,
    Estimate,
    QuestionMean,
    Ratio,
    Statistic,
    estimate,
    intervals,
)
from prmcal.db.statistics.intervals import IntervalRule
from prmcal.harness.jobs.context import Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.trajectories import QuestionAxis
from prmcal.harness.jobs.parameters import MeasuringParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.storage.keys import content_key

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MetricOf", "bootstrap_of", "mean_of", "metric_tables", "question_output"]

_COLUMNS = {
    "value": np.float64,
    "low": np.float64,
    "high": np.float64,
    "rows": np.int32,
    "questions": np.int32,
}

MetricOf = Callable[[NDArray[np.bool_]], Ratio]
"""From a selection of questions, as an array of shape (questions,), to a metric of these questions."""


def bootstrap_of(shard: Shard[MeasuringParameters]) -> Bootstrap:
    """Return how a shard resamples the questions. All cells of a data set are resampled alike."""
    given = shard.parameters.bootstrap
    return Bootstrap(replicates=given.replicates, seed=given.seed)


def metric_tables(
    metrics: Mapping[str, Statistic],
    bootstrap: Bootstrap,
    by_level: Mapping[int, Mapping[str, Statistic]] | None = None,
    compared: Collection[str] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return metrics with their 95% intervals as a table, and their bootstrap replicates as another.

    Two cells of a data set are resampled alike, so their paired difference is the difference of their replicates. The
    column `resampled` is a hash of the questions that were resampled.

    Parameters
    ----------
    metrics : mapping of str to Statistic
        Metrics over all questions, by name.
    bootstrap : Bootstrap
    by_level : mapping of int to (mapping of str to Statistic), optional
        Metrics over the questions of each difficulty. Their replicates are not returned.
    compared : collection of str, optional
        The metrics whose replicates are returned. By default, these are all metrics over all questions.
    """
    import pandas as pd

    chosen = [name for name in metrics if compared is None or name in compared]
    groups: list[tuple[int | None, Mapping[str, Statistic]]] = [(None, metrics), *(by_level or {}).items()]
    known = intervals(metric for _, group in groups for metric in group.values())
    estimates: dict[tuple[int | None, str], Estimate] = {}
    for level, group in groups:
        for name, metric in group.items():
            with plugin_guard("metric", name, "measure"):  # It may call functions of a plugin.
                estimates[level, name] = estimate(
                    metric, bootstrap, level is None and name in chosen, known.get(metric)
                )
    results = pd.DataFrame(
        {
            "metric": [name for _, name in estimates],
            "question_level": pd.array([level for level, _ in estimates], dtype="Int32"),
            **{
                column: np.array([getattr(each, column) for each in estimates.values()], dtype)
                for column, dtype in _COLUMNS.items()
            },
        }
    )
    drawn = {name: estimates[None, name].replicates for name in chosen}
    counts = [len(values) for values in drawn.values()]
    resampled = [_key_of(tuple(metrics[name].question_ids.tolist())) for name in chosen]
    replicates = pd.DataFrame(
        {
            # These arrays are repeated without making a Python object of each text.
            "metric": pd.array(list(drawn), dtype="str").repeat(counts),
            "resampled": pd.array(resampled, dtype="str").repeat(counts),
            "replicate": np.concatenate([np.arange(count) for count in counts]),
            "value": np.concatenate(list(drawn.values())),
        }
    )
    return results, replicates


@lru_cache(maxsize=8)  # Most metrics of a job are of the same questions.
def _key_of(question_ids: tuple[Hashable, ...]) -> str:
    return content_key(list(question_ids))


def mean_of(axis: QuestionAxis, values: NDArray[np.float64], interval: IntervalRule) -> MetricOf:
    """Return the mean of one value per question as a metric.

    Parameters
    ----------
    axis : QuestionAxis
        The questions of the values.
    values : ndarray of shape (questions,)
    interval : callable
        The rule for the interval.
    """
    return lambda chosen: QuestionMean(values[chosen], axis.question_ids[chosen], interval)


def question_output(
    shard: Shard[MeasuringParameters],
    axis: QuestionAxis,
    metrics: Mapping[str, MetricOf],
    rows: int,
) -> Output:
    """Return the output of a job with one value for each question and metric: overall, by difficulty, and by question.

    The value of a question is the linearised one of the metric, so that the mean over questions is the result, and the
    mean over resampled questions is the result for these questions, to first order. For a mean of one value per
    question, it is this value.

    Parameters
    ----------
    shard : Shard
    axis : QuestionAxis
        The questions that are selected from.
    metrics : mapping of str to callable
        The metrics by name.
    rows : int
        Trajectories behind the value of one question.
    """
    import pandas as pd

    everywhere = np.ones(len(axis.question_ids), dtype=bool)
    known = [level for level in np.unique(axis.question_levels) if not np.isnan(level)]
    overall = {name: metric(everywhere) for name, metric in metrics.items()}
    by_level = {
        int(level): {name: metric(axis.question_levels == level) for name, metric in metrics.items()}
        for level in known
    }
    results, replicates = metric_tables(overall, bootstrap_of(shard), by_level)
    results["rows"] = (results["questions"] * rows).astype("int32")
    by_question = pd.DataFrame(
        {
            "question_id": np.tile(axis.question_ids, len(metrics)),
            "question_level": pd.array(np.tile(axis.question_levels, len(metrics))).astype("Int32"),
            "metric": np.repeat(list(metrics), len(axis.question_ids)),
            "value": np.concatenate([metric.linearised() for metric in overall.values()]),
        }
    )
    return Output({"results": results, "question_results": by_question, "replicates": replicates})
