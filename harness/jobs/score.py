"""The scores of trajectories by a PRM: the logit and the reward of every prefix."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import QuestionSlice, ScoreParameters
from prmcal.harness.jobs.plugin_calls import checked_scores, plugin_guard
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.steps import split_steps


def scoring_requests(context: Context, data: QuestionSlice, trajectories: pd.DataFrame) -> dict[str, ScoringRequest]:
    """Return the requests to score some trajectories: one for each question, by its id, in the order of the table."""
    questions = {question.id: question.text for question in context.questions(data)}
    return {
        key: ScoringRequest(questions[key], tuple(split_steps(text) for text in group["text"]))
        for key, group in trajectories.groupby("question_id", sort=False)
    }


def compute_score(shard: Shard[ScoreParameters], context: Context) -> Output:
    """Return the scores of a rollout shard. A prefix that is too long for the PRM has the score NaN and a flag."""
    prm = shard.parameters.prm
    trajectories = context.table(shard, "rollout", "texts")
    requests = scoring_requests(context, shard.parameters.data, trajectories)
    groups = list(trajectories.groupby("question_id", sort=False))
    with plugin_guard("prm", prm.name, "score"):
        scores_of_questions = checked_scores(context.prm(prm), list(requests.values()))
    scored = [
        (key, trajectory, scores)
        for (key, group), question_scores in zip(groups, scores_of_questions, strict=True)
        for trajectory, scores in zip(group["trajectory"], question_scores, strict=True)
    ]
    # Tokens that the trajectories of a question share are counted once.
    token_counts = [(key, trajectory, scores.tokens) for key, trajectory, scores in scored]
    tokens = pd.DataFrame(token_counts, columns=["question_id", "trajectory", "tokens"])
    tokens = tokens.astype({"trajectory": "int32", "tokens": "int32"})
    total = sum(count for _, _, count in token_counts)
    return Output({"rewards": _rewards(scored), "scored_tokens": tokens}, scored_tokens=total)


def _rewards(scored: Sequence[tuple[str, int, PrefixScores]]) -> pd.DataFrame:
    """Return one row for each prefix of some trajectories, from their questions, indices and scores.

    The table is built from whole columns: a table for each trajectory would take as long as a small PRM.
    """
    prefixes = [len(scores.logit) for _, _, scores in scored]
    return pd.DataFrame(
        {
            "question_id": np.repeat([key for key, _, _ in scored], prefixes),
            "trajectory": np.repeat(np.array([number for _, number, _ in scored], dtype=np.int32), prefixes),
            "step": np.concatenate([np.arange(count, dtype=np.int32) for count in prefixes]),
            "logit": np.concatenate([np.asarray(scores.logit, dtype=np.float32) for _, _, scores in scored]),
            "reward": np.concatenate([np.asarray(scores.reward, dtype=np.float64) for _, _, scores in scored]),
            "over_long": np.concatenate([np.asarray(scores.over_long, dtype=bool) for _, _, scores in scored]),
        }
    )
