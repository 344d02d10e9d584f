"""Best-of-n with a fixed n: the trajectory with the highest reward of n, exactly over the pool."""

from __future__ import annotations

import numpy as np

from harness.context import Context, Output
from harness.jobs.measuring import last_scores, pool_of, question_output
from harness.metrics.best_of_n import best_of_n
from harness.plan import Shard

__all__ = ["compute"]


def compute(shard: Shard, context: Context) -> Output:
    """Accuracy per question; the budget is that of the baseline by definition."""
    pool = pool_of(shard, context)
    samples = shard.parameters["samples"]
    accuracy = best_of_n(last_scores(shard, context), pool.correct, np.array([samples]))[:, 0]
    values = {
        "accuracy": accuracy,
        "budget_ratio": np.ones(len(accuracy)),
        "samples": np.full(len(accuracy), float(samples)),
    }
    return question_output(shard, pool, values, pool.correct.shape[1])
