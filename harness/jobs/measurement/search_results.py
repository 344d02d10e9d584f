"""Search results: the accuracy and the costs of a search, and its budget ratio to the search of fixed width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.results import question_output
from prmcal.harness.jobs.measurement.trajectories import QuestionAxis
from prmcal.harness.jobs.parameters import SearchResultsParameters

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute"]


def compute(shard: Shard[SearchResultsParameters], context: Context) -> Output:
    """Return the metrics of a search. Each question is searched once, so its answer is either right or wrong."""
    searches = _sorted(context.table(shard, "search", "searches"))
    fixed = _sorted(context.table(shard, "fixed", "searches"))
    axis = QuestionAxis.of(context.questions(shard.parameters.data), searches["question_id"].to_numpy())
    values = {
        "accuracy": searches["correct"],
        "budget_ratio": searches["generations"] / fixed["generations"].mean(),
        "samples": searches["generations"],
        "pass_at_n": searches["any_correct"],
        "generated_tokens": searches["generated_tokens"],
        "prefill_tokens": searches["prefill_tokens"],
        "prm_tokens": searches["scored_tokens"],
    }
    if not searches["prefill_tokens"].all():
        del values["prefill_tokens"]  # The LLM does not report them.
    return question_output(
        shard, axis, {name: column.to_numpy(np.float64) for name, column in values.items()}, 1
    )


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values("question_id", ignore_index=True)
