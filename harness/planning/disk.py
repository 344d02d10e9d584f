"""Disk and memory that a plan will take, from the sizes of its models and the assumed lengths of its texts."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from prmcal.harness.jobs.parameters import FitParameters, HiddenParameters, PluginReference, RolloutParameters
from prmcal.harness.planning.gpu_hours import (
    QUESTION_TOKENS,
    billions,
    checkpoint_of,
    completion_tokens,
    longest_completion,
    trajectory_tokens,
)
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.models.checkpoints import is_on_this_machine, read_config, resolve_checkpoint

_BYTES_OF_TOKEN = 4
_BYTES_OF_STATE = 2
_BYTES_IN_MEMORY = 4
_BYTES_OF_SHARD = 100_000
_BYTES_OF_PARAMETER = 2
_WIDTH_OF_A_BILLION = 2048

EXPLANATION = (
    f"Hidden states take {_BYTES_OF_STATE} bytes x the PRM's width for every token of the measured trajectories and of "
    f"those that calibrators are fitted to. The width of a PRM that is not on this machine is assumed to be "
    f"{_WIDTH_OF_A_BILLION:,} x (10^9 parameters)^(1/3). A solution takes {_BYTES_OF_TOKEN} bytes per token, any other "
    f"shard {_BYTES_OF_SHARD / 1e6:g} MB, a model {_BYTES_OF_PARAMETER} bytes per parameter. A fit that reads hidden "
    "states loads those of one LLM and PRM into memory as float32. For a short time it needs twice this memory."
)


@dataclass(frozen=True)
class Space:
    """Bytes that a plan will take.

    Attributes
    ----------
    hidden, solutions, rest : float
        Disk for the artifacts that are not computed yet: hidden states, whole solutions, and the others.
    models : float
        Disk for the weights that are not on this machine.
    memory : float
        Memory for the hidden states that the largest fit reads.
    """

    hidden: float
    solutions: float
    rest: float
    models: float
    memory: float

    @property
    def artifacts(self) -> float:
        """Disk for all artifacts that are not computed yet."""
        return self.hidden + self.solutions + self.rest


def space_needed(plan: Plan, done: Collection[ArtifactRef]) -> Space:
    """Estimate the disk and the memory for the remaining work.

    Parameters
    ----------
    done : collection of ArtifactRef
        Finished shards.
    """
    shards = [shard for shard in plan.shards() if shard.ref not in done]
    longest = longest_completion(plan)
    widths: dict[str, float] = {}
    states = {
        shard.ref: _states(shard.parameters, longest, widths)
        for shard in plan.shards()
        if isinstance(shard.parameters, HiddenParameters)
    }
    fits = [
        sum(states[ref] for ref in shard.inputs["hidden"])
        for shard in shards
        if isinstance(shard.parameters, FitParameters) and "hidden" in shard.inputs
    ]
    given = [shard.parameters for shard in shards]
    solutions = sum(
        each.size * completion_tokens(each) for each in given if isinstance(each, RolloutParameters)
    )
    others = sum(not isinstance(each, HiddenParameters | RolloutParameters) for each in given)
    return Space(
        hidden=_BYTES_OF_STATE * sum(states[shard.ref] for shard in shards if shard.ref in states),
        solutions=_BYTES_OF_TOKEN * solutions,
        rest=_BYTES_OF_SHARD * float(others),
        models=sum(_BYTES_OF_PARAMETER * 1e9 * (billions(name) or 0) for name in plan.absent),
        memory=_BYTES_IN_MEMORY * max(fits, default=0.0),
    )


def _states(parameters: HiddenParameters, longest: int, widths: dict[str, float]) -> float:
    """Return the count of numbers in the hidden states of a shard. The trajectories of a question share its tokens."""
    questions, prm = len(parameters.data.questions), parameters.prm
    tokens = parameters.size * trajectory_tokens(longest) + questions * QUESTION_TOKENS
    if prm.name not in widths:
        widths[prm.name] = _width(prm)
    return tokens * widths[prm.name]


def _width(prm: PluginReference) -> float:
    """Return the width of a PRM's hidden states; 0 if it is not known."""
    checkpoint = checkpoint_of("prm", prm)
    if checkpoint and is_on_this_machine(checkpoint):
        width = read_config(resolve_checkpoint(checkpoint)).get("hidden_size")
        return float(width) if isinstance(width, int) else 0.0
    return _WIDTH_OF_A_BILLION * math.cbrt(billions(checkpoint) or 0.0)
