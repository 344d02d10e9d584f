"""Hidden: compute the PRM's hidden states at every token of the measured trajectories, once for all calibrators."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import HiddenParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard, require, require_length
from prmcal.harness.jobs.score import scoring_requests
from prmcal.registry.contracts.data import HiddenStates
from prmcal.registry.network import patiently

__all__ = ["compute"]


def compute(shard: Shard[HiddenParameters], context: Context) -> Output:
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
