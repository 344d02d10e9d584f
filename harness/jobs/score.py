"""Scores of trajectories by a PRM: the logit and the reward of every prefix, and the hidden states at every token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import HiddenParameters, QuestionSlice, ScoreParameters
from prmcal.harness.jobs.plugin_calls import checked_scores, plugin_guard, require, require_length
from prmcal.registry.contracts.data import HiddenStates, PrefixScores, ScoringRequest
from prmcal.registry.network import patiently
from prmcal.steps import split_steps

if TYPE_CHECKING:
    import pandas as pd


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


def compute_score(shard: Shard[ScoreParameters], context: Context) -> Output:
    """Return the scores of a rollout shard. A prefix that is too long for the PRM has the score NaN and a flag."""
    prm = shard.parameters.prm
    trajectories = context.table(shard, "rollout", "trajectories")
    requests = scoring_requests(context, shard.parameters.data, trajectories)
    groups = list(trajectories.groupby("question_id", sort=False))
    with plugin_guard("prm", prm.name, "score"):
        scored = checked_scores(context.prm(prm), list(requests.values()))
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


def compute_hidden(shard: Shard[HiddenParameters], context: Context) -> Output:
    """Return the token trees with a state at every node, and the node at which each prefix ends.

    States are stored in half precision, because they take most of a run's disk space.
    """
    parameters = shard.parameters
    stop = parameters.trajectories.stop
    trajectories = context.table(shard, "rollout", "trajectories")
    requests = scoring_requests(context, parameters.data, trajectories[trajectories["trajectory"] < stop])
    rewards = context.table(shard, "score", "rewards")
    # The score job wrote them in the order of its requests, and these requests have the same order.
    prefixes = rewards[(rewards["trajectory"] < stop) & ~rewards["over_long"]]
    with plugin_guard("prm", parameters.prm.name, "give hidden states"):
        prm = context.prm(parameters.prm)
        found = patiently(prm, lambda: prm.hidden_states(list(requests.values())))
        require_length(found, len(requests), "forests of hidden states")
        forest = HiddenStates.concatenate(found)
        require_length(forest, len(prefixes), "prefixes with hidden states")
        require(bool(np.isfinite(forest.states).all()), "it returned a hidden state that is not finite.")
    table = prefixes[["question_id", "trajectory", "step"]].assign(
        leaf=forest.leaves, logit=prefixes["logit"].to_numpy(np.float32)
    )
    return Output(
        {"hidden_prefixes": table.astype({"leaf": "int64"})},
        save=lambda folder: _save(forest, folder),
        scored_tokens=len(forest.states),
    )


def _save(forest: HiddenStates, folder: Path) -> None:
    from safetensors.numpy import save_file

    largest = np.finfo(np.float16).max
    states = np.clip(forest.states, -largest, largest).astype(np.float16)
    save_file({"states": states, "parents": forest.parents.astype(np.int64)}, folder / "states.safetensors")
