"""Score: compute the PRM's logit and reward of every prefix of every trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prmcal.harness.jobs.context import Context, Output, plugin_guard, require, require_length
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import QuestionSlice, ScoreParameters
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.network import patiently
from prmcal.steps import split_steps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute", "scoring_requests"]

_Place = tuple[str, int, PrefixScores]
"""The id of a question, the index of one of its trajectories, and the scores of this trajectory."""


def scoring_requests(
    context: Context, data: QuestionSlice, trajectories: pd.DataFrame
) -> dict[str, ScoringRequest]:
    """Return the requests to score some trajectories: one for each question, by its id, in the order of the table."""
    questions = {question.id: question.text for question in context.questions(data)}
    return {
        key: ScoringRequest(questions[key], tuple(split_steps(text) for text in group["text"]))
        for key, group in trajectories.groupby("question_id", sort=False)
    }


def compute(shard: Shard[ScoreParameters], context: Context) -> Output:
    """Return the scores of a rollout shard. A prefix that is too long for the PRM has the score NaN and a flag."""
    prm = shard.parameters.prm
    trajectories = context.table(shard, "rollout", "trajectories")
    requests = scoring_requests(context, shard.parameters.data, trajectories)
    groups = list(trajectories.groupby("question_id", sort=False))
    with plugin_guard("prm", prm.name, "score"):
        loaded = context.prm(prm)
        scored = patiently(loaded, lambda: loaded.score_batch(list(requests.values())))
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
    """Return one row for each prefix.

    It is built from whole columns: one table for each trajectory would take as long as a small PRM.
    """
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
    """Return the tokens that the PRM read for each trajectory. Tokens that trajectories share are counted once."""
    import pandas as pd

    rows = [(key, trajectory, each.tokens) for key, trajectory, each in places]
    return pd.DataFrame(rows, columns=["question_id", "trajectory", "tokens"]).astype(
        {"trajectory": "int32", "tokens": "int32"}
    )


def check_scores(scores: PrefixScores, steps: int) -> None:
    """Raise a PluginFailedError unless the scores of a trajectory of `steps` steps meet the contract."""
    require_length(scores.reward, steps + 1, f"rewards for a trajectory of {steps} steps")
    require_length(scores.logit, steps + 1, f"logits for a trajectory of {steps} steps")
    reward = np.asarray(scores.reward, dtype=np.float64)
    judged = reward[~np.asarray(scores.over_long, dtype=bool)]
    require(not np.isnan(judged).any(), "it returned NaN for a prefix that it did not flag as too long.")
    outside = judged[(judged < 0) | (judged > 1)]
    require(not outside.size, f"it returned the reward {outside[:1]}, outside [0, 1].")
    require(
        bool(np.isfinite(scores.logit[~scores.over_long]).all()), "it returned a logit that is not finite."
    )
