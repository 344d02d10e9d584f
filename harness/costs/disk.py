"""Disk and memory that a plan will take, from the sizes of its models and what is taken for granted of its texts."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from prmcal.harness.costs.assumptions import completion_tokens, longest_completion, trajectory_tokens
from prmcal.harness.costs.gpu_hours import QUESTION_TOKENS, billions, checkpoint_of
from prmcal.harness.jobs.job import Shard
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.registry.models.checkpoints import is_on_this_machine, resolve_checkpoint

__all__ = ["EXPLANATION", "Space", "space_needed"]

_BYTES_OF_TOKEN = 4
_BYTES_OF_STATE = 2
_BYTES_IN_MEMORY = 4
_BYTES_OF_SHARD = 100_000
_BYTES_OF_PARAMETER = 2
_WIDTH_OF_A_BILLION = 2048

EXPLANATION = (
    f"Hidden states, which ats reads, are {_BYTES_OF_STATE} bytes x the PRM's width for every token of the "
    "trajectories that are measured or fitted to; a PRM that is not here is taken to be "
    f"{_WIDTH_OF_A_BILLION:,} x (10^9 parameters)^(1/3) wide. A solution is {_BYTES_OF_TOKEN} bytes a token, any other "
    f"shard {_BYTES_OF_SHARD / 1e6:g} MB, a model {_BYTES_OF_PARAMETER} bytes a parameter. A fit of ats reads the "
    "states of one LLM and PRM into memory as float32, for a moment twice."
)


@dataclass(frozen=True)
class Space:
    """Bytes that a plan will take.

    Attributes
    ----------
    hidden, solutions, rest : float
        Of artifacts still to be computed: hidden states, whole solutions, and all else.
    models : float
        Of weights that are not on this machine.
    memory : float
        Of the hidden states that the largest fit reads.
    """

    hidden: float
    solutions: float
    rest: float
    models: float
    memory: float

    @property
    def artifacts(self) -> float:
        """All that the run's folder will hold."""
        return self.hidden + self.solutions + self.rest


def space_needed(plan: Plan, done: Collection[ArtifactRef]) -> Space:
    """Disk and memory for what is left to do.

    Parameters
    ----------
    plan : Plan
    done : collection of ArtifactRef
        Shards that are there already.
    """
    shards = {shard.ref: shard for shard in plan.shards() if shard.ref not in done}.values()
    longest = longest_completion(plan)
    widths: dict[str, float] = {}
    states = {
        shard.ref: _states(shard, longest, widths) for shard in plan.shards() if shard.ref.kind == "hidden"
    }
    fits = [
        sum(states[ref] for ref in shard.inputs["hidden"])
        for shard in shards
        if shard.ref.kind == "fit" and "hidden" in shard.inputs
    ]
    solutions = sum(shard.size * completion_tokens(shard) for shard in shards if shard.ref.kind == "rollout")
    others = sum(shard.ref.kind not in ("hidden", "rollout") for shard in shards)
    return Space(
        hidden=_BYTES_OF_STATE * sum(states[shard.ref] for shard in shards if shard.ref in states),
        solutions=_BYTES_OF_TOKEN * solutions,
        rest=_BYTES_OF_SHARD * float(others),
        models=sum(_BYTES_OF_PARAMETER * 1e9 * (billions(name) or 0) for name in plan.absent),
        memory=_BYTES_IN_MEMORY * max(fits, default=0.0),
    )


def _states(shard: Shard, longest: int, widths: dict[str, float]) -> float:
    """Numbers in the hidden states of a shard: the trajectories of a question share its tokens."""
    first, last = shard.parameters["questions"]
    tokens: float = shard.size * trajectory_tokens(longest) + (last - first) * QUESTION_TOKENS
    prm = shard.parameters["prm"]
    if prm["name"] not in widths:
        widths[prm["name"]] = _width(prm)
    return tokens * widths[prm["name"]]


def _width(prm: Mapping[str, Any]) -> float:
    """Of a PRM's hidden states; 0 if nothing tells."""
    checkpoint = checkpoint_of("prm", prm)
    if checkpoint and is_on_this_machine(checkpoint):
        config = json.loads((resolve_checkpoint(checkpoint) / "config.json").read_text(encoding="utf-8"))
        return float(config.get("hidden_size") or 0)
    return _WIDTH_OF_A_BILLION * math.cbrt(billions(checkpoint) or 0.0)
