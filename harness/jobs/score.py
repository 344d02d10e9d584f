"""Score: the PRM's logit and reward of every prefix of every trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.context import Context, Output, plugin_guard, require, require_length
from harness.plan import Shard
from registry.contracts.data import PrefixScores, ScoringRequest, split_steps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute", "scoring_requests"]


def scoring_requests(context: Context, shard: Shard, trajectories: pd.DataFrame) -> dict[str, ScoringRequest]:
    """What a PRM is asked about some trajectories: one request per question, by its id, in the table's order."""
    questions = {question.id: question.text for question in context.questions(shard)}
    return {
        key: ScoringRequest(questions[key], tuple(split_steps(text) for text in group["text"]))
        for key, group in trajectories.groupby("question_id", sort=False)
    }


def compute(shard: Shard, context: Context) -> Output:
    """Scores of a rollout shard; a prefix that is too long for the PRM has a null score and a flag."""
    import pandas as pd

    trajectories = context.table(shard, "rollout", "trajectories")
    requests = scoring_requests(context, shard, trajectories)
    groups = list(trajectories.groupby("question_id", sort=False))
    name = shard.parameters["prm"]["name"]
    with plugin_guard("prm", name, "score"):
        scored = context.prm(shard.parameters["prm"]).score_batch(list(requests.values()))
        require_length(scored, len(requests), "lists of scores")
        for request, scores in zip(requests.values(), scored, strict=True):
            require_length(scores, len(request.trajectories), "scored trajectories")
            for trajectory, each in zip(request.trajectories, scores, strict=True):
                check_scores(each, len(trajectory))
    frames = [
        pd.DataFrame(
            {
                "question_id": key,
                "trajectory": np.int32(trajectory),
                "step": np.arange(len(each.logit), dtype=np.int32),
                "logit": np.asarray(each.logit, dtype=np.float32),
                "reward": np.asarray(each.reward, dtype=np.float64),
                "over_long": np.asarray(each.over_long, dtype=bool),
            }
        )
        for (key, group), scores in zip(groups, scored, strict=True)
        for trajectory, each in zip(group["trajectory"], scores, strict=True)
    ]
    tokens = sum(each.tokens for scores in scored for each in scores)
    tables = {"rewards": pd.concat(frames, ignore_index=True), "scored_tokens": _tokens(groups, scored)}
    return Output(tables, scored_tokens=tokens)


def _tokens(
    groups: Sequence[tuple[Any, pd.DataFrame]], scored: Sequence[Sequence[PrefixScores]]
) -> pd.DataFrame:
    """What the PRM read for each trajectory, tokens that trajectories share counted once."""
    import pandas as pd

    rows = [
        (key, trajectory, each.tokens)
        for (key, group), scores in zip(groups, scored, strict=True)
        for trajectory, each in zip(group["trajectory"], scores, strict=True)
    ]
    return pd.DataFrame(rows, columns=["question_id", "trajectory", "tokens"]).astype(
        {"trajectory": "int32", "tokens": "int32"}
    )


def check_scores(scores: PrefixScores, steps: int) -> None:
    """Raise a PluginFailedError unless the scores of a trajectory of `steps` steps fulfil the contract."""
    require_length(scores.reward, steps + 1, f"rewards for a trajectory of {steps} steps")
    require_length(scores.logit, steps + 1, f"logits for a trajectory of {steps} steps")
    reward = np.asarray(scores.reward, dtype=np.float64)
    judged = reward[~np.asarray(scores.over_long, dtype=bool)]
    require(not np.isnan(judged).any(), "it returned NaN for a prefix that it did not flag as over-long.")
    outside = judged[(judged < 0) | (judged > 1)]
    require(not outside.size, f"it returned the reward {outside[:1]}, outside [0, 1].")
    require(
        bool(np.isfinite(scores.logit[~scores.over_long]).all()), "it returned a logit that is not finite."
    )
