"""Hidden: the PRM's hidden states at every token of the measured trajectories, once for all calibrators."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from harness.context import Context, Output, plugin_guard, require, require_length
from harness.plan import Shard
from registry.contracts.data import ScoringRequest, split_steps
from registry.contracts.features import HiddenStates
from registry.errors import PluginFailedError
from registry.prms.transformers import TransformersPRM

__all__ = ["compute"]


def compute(shard: Shard, context: Context) -> Output:
    """The token trees with a state at every node, and where in them each prefix ends.

    States are kept in half precision: they are most of what a run stores.
    """
    questions = {question.id: question for question in context.questions(shard)}
    trajectories = context.table(shard, "rollout", "trajectories")
    trajectories = trajectories[trajectories["trajectory"] < shard.parameters["measured"]]
    rewards = context.table(shard, "score", "rewards")
    prefixes = trajectories[["question_id", "trajectory"]].merge(
        rewards[~rewards["over_long"]], on=["question_id", "trajectory"]
    )
    groups = [(key, group) for key, group in trajectories.groupby("question_id", sort=False)]
    requests = [
        ScoringRequest(questions[key].text, tuple(split_steps(text) for text in group["text"]))
        for key, group in groups
    ]
    name = shard.parameters["prm"]["name"]
    with plugin_guard("prm", name, "give hidden states"):
        prm = context.prm(shard.parameters["prm"])
        if not hasattr(prm, "hidden_states"):
            raise PluginFailedError(
                "it has no method 'hidden_states'. Derive it from TransformersPRM, or leave out calibrators that "
                "read hidden states."
            )
        found = cast(TransformersPRM, prm).hidden_states(requests)
        require_length(found, len(requests), "forests of hidden states")
        order = {key: position for position, (key, _) in enumerate(groups)}
        prefixes = prefixes.sort_values(
            ["question_id", "trajectory", "step"],
            key=lambda column: column.map(order) if column.name == "question_id" else column,
            ignore_index=True,
        )
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


__all__ = ["compute"]
