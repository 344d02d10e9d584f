"""Best-of-n + IAS: as many samples as the calibrated reward of the bare question asks for (section 4.1)."""

from __future__ import annotations

import numpy as np

from harness.context import Context, Output
from harness.jobs.measuring import last_scores, pool_of, question_output
from harness.metrics.adaptive import adaptive_best_of_n
from harness.plan import Shard

__all__ = ["compute"]


def compute(shard: Shard, context: Context) -> Output:
    """Accuracy, samples, budget ratio and pass@N_IAS per question; the original reward ranks.

    A question too long for the PRM has no reward and gets the whole budget.
    """
    pool = pool_of(shard, context)
    rewards = context.table(shard, "calibrated", "calibrated_rewards")
    at_level = np.isclose(rewards["level"], shard.parameters["level"])
    # The bare question is the same prefix in all of its trajectories.
    bare = rewards[(rewards["step"] == 0) & at_level].groupby("question_id")["reward"].first()
    result = adaptive_best_of_n(
        bare.reindex(pool.question_ids).to_numpy(np.float64),
        last_scores(shard, context),
        pool.correct,
        shard.parameters["target"],
        shard.parameters["samples"],
    )
    values = {
        "accuracy": result.accuracy,
        "budget_ratio": result.budget_ratio,
        "samples": result.samples.astype(np.float64),
        "pass_at_n": result.pass_at_samples,
    }
    return question_output(shard, pool, values, pool.correct.shape[1])
