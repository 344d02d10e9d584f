"""pass@1: the chance that one sampled trajectory is right."""

from __future__ import annotations

from harness.context import Context, Output
from harness.jobs.measuring import pool_of, question_output
from harness.metrics.best_of_n import pass_at_1
from harness.plan import Shard

__all__ = ["compute"]


def compute(shard: Shard, context: Context) -> Output:
    """Accuracy per question, the mean over its pool."""
    pool = pool_of(shard, context)
    return question_output(shard, pool, {"accuracy": pass_at_1(pool.correct)}, pool.correct.shape[1])
