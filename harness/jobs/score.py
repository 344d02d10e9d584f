"""Score: the PRM's logit and reward of every prefix of every trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prmcal.harness.jobs.context import Context, Output, plugin_guard, require, require_length
from prmcal.harness.jobs.job import Shard
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest, split_steps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute", "scoring_requests"]

_Place = tuple[str, int, PrefixScores]
"""A question's id, the number of one of its trajectories, and that one's scores."""


def scoring_requests(context: Context, shard: Shard, trajectories: pd.DataFrame) -> dict[str, ScoringRequest]:
    """What a PRM is asked about some trajectories: one request per question, by its id, in the table's order."""
    questions = {question.id: question.text for question in context.questions(shard)}
    return {
        key: ScoringRequest(questions[key], tuple(split_steps(text) for text in group["text"]))
        for key, group in trajectories.groupby("question_id", sort=False)
    }


def compute(shard: Shard, context: Context) -> Output:
    """Scores of a rollout shard; a prefix that is too long for the PRM has a null score and a flag."""
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
    places = [
        (key, trajectory, each)
        for (key, group), scores in zip(groups, scored, strict=True)
        for trajectory, each in zip(group["trajectory"], scores, strict=True)
    ]
    return Output(
        {"rewards": _rewards(places), "scored_tokens": _tokens(places)},
        scored_tokens=sum(each.tokens for _, _, each in places),
    )


def _rewards(places: Sequence[_Place]) -> pd.DataFrame:
    """One row per prefix. Whole columns at once: a table per trajectory would take as long as a small PRM."""
    import pandas as pd

    prefixes = [len(each.logit) for _, _, each in places]
    return pd.DataFrame(
        {
            "question_id": np.repeat([key for key, _, _ in places], prefixes),
            "trajectory": np.repeat(np.array([number for _, number, _ in places], dtype=np.int32), prefixes),
            "step": np.concatenate([np.arange(count, dtype=np.int32) for count in prefixes]),
            "logit": np.concatenate([np.asarray(each.logit, dtype=np.float32) for _, _, each in places]),
            "reward": np.concatenate([np.asarray(each.reward, dtype=np.float64) for _, _, each in places]),
            "over_long": np.concatenate([np.asarray(each.over_long, dtype=bool) for _, _, each in places]),
        }
    )


def _tokens(places: Sequence[_Place]) -> pd.DataFrame:
    """What the PRM read for each trajectory, tokens that trajectories share counted once."""
    import pandas as pd

    rows = [(key, trajectory, each.tokens) for key, trajectory, each in places]
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
