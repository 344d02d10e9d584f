"""Search results: accuracy and costs of a search, and its budget next to that of the search of fixed width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.pool import QuestionPlaces, question_output

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute"]


def compute(shard: Shard, context: Context) -> Output:
    """One search per question, so that a question is right or wrong; the interval is over questions."""
    searches = _sorted(context.table(shard, "search", "searches"))
    fixed = _sorted(context.table(shard, "fixed", "searches"))
    places = QuestionPlaces.of(context.questions(shard), searches["question_id"].to_numpy())
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
        del values["prefill_tokens"]  # an LLM that does not tell
    return question_output(
        shard, places, {name: column.to_numpy(np.float64) for name, column in values.items()}, 1
    )


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values("question_id", ignore_index=True)
