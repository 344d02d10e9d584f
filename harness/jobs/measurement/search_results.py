"""Search results: the accuracy and the costs of a search, and its budget ratio to the search of fixed width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Ratio
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, skewed_interval
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.results import MetricOf, mean_of, question_output
from prmcal.harness.jobs.measurement.trajectories import QuestionAxis
from prmcal.harness.jobs.parameters import SearchResultsParameters

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute"]


def compute(shard: Shard[SearchResultsParameters], context: Context) -> Output:
    """Return the metrics of a search. Each question is searched once, so its answer is either right or wrong.

    The budget ratio is the sum of the generations over all questions, divided by that of the search of fixed width over
    the same questions. Both are estimates: a question that is long for one search is long for the other.
    """
    searches = _by_question(context.table(shard, "search", "searches"))
    fixed = _by_question(context.table(shard, "fixed", "searches")).loc[searches.index]
    axis = QuestionAxis.of(context.questions(shard.parameters.data), searches.index.to_numpy())

    def mean(column: str, interval: IntervalRule = skewed_interval) -> MetricOf:
        return mean_of(axis, searches[column].to_numpy(np.float64), interval)

    def budget_ratio(chosen: NDArray[np.bool_]) -> Ratio:
        own, others = (table["generations"].to_numpy(np.float64)[chosen] for table in (searches, fixed))
        return Ratio(own, others, axis.question_ids[chosen], skewed_interval)

    metrics = {
        "accuracy": mean("correct", bounded_interval),
        "budget_ratio": budget_ratio,
        "samples": mean("generations"),
        "pass_at_n": mean("any_correct", bounded_interval),
        "generated_tokens": mean("generated_tokens"),
        "prefill_tokens": mean("prefill_tokens"),
        "prm_tokens": mean("scored_tokens"),
    }
    if not searches["prefill_tokens"].all():
        del metrics["prefill_tokens"]  # The LLM does not report them.
    return question_output(shard, axis, metrics, 1)


def _by_question(table: pd.DataFrame) -> pd.DataFrame:
    return table.set_index("question_id").sort_index()
