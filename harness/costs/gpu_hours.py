"""GPU-hours of a plan by the sizes of its models, for grids of which nothing was computed yet.

A transformer takes 2 operations per parameter and token forward, and 6 to be trained on one (Kaplan et al., 2020).
How much of a GPU's peak that comes to hangs on the work: reading long texts uses much of it, generating little.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prmcal.harness.costs.assumptions import (
    SHARE_OF_LONGEST,
    STEP_TOKENS,
    completion_tokens,
    longest_completion,
    prefixes,
    trajectory_tokens,
)
from prmcal.harness.jobs.job import Shard
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.registry.plugins import KINDS

__all__ = ["EXPLANATION", "QUESTION_TOKENS", "ModelCost", "billions", "checkpoint_of", "model_costs"]

_GPU, _PEAK = "H100", 989e12
_SHARE = {"generate": 0.1, "read": 0.4, "train": 0.3}
_OPERATIONS = {"generate": 2, "read": 2, "train": 6}
QUESTION_TOKENS = 150
"""Of a question with what a PRM's format puts around it."""
_EPOCHS = 3
_BILLIONS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)

EXPLANATION = (
    f"GPU-hours are those of a {_GPU} ({_PEAK / 1e12:.0f} TFLOP/s in bfloat16), by size: 2 operations per parameter "
    f"and token at {_SHARE['generate']:.0%} of its peak to generate and at {_SHARE['read']:.0%} to score, 6 at "
    f"{_SHARE['train']:.0%} to train on; a model's size is read from its name. A solution is taken to have "
    f"{SHARE_OF_LONGEST:g} x max_tokens, a step {STEP_TOKENS} tokens. Good to a factor of three; once shards were run, "
    "`--out DIR` counts by their own times."
)


@dataclass(frozen=True)
class ModelCost:
    """The work of one model in a plan.

    Attributes
    ----------
    billions : float
        Its parameters.
    tokens : float
        That it generates, reads and is trained on.
    gpu_hours : float
    """

    name: str
    billions: float
    tokens: float
    gpu_hours: float


def model_costs(plan: Plan, done: Collection[ArtifactRef]) -> list[ModelCost]:
    """What is left to do for each model whose checkpoint's name holds its size, in the plan's order.

    Parameters
    ----------
    plan : Plan
    done : collection of ArtifactRef
        Shards that are there already.
    """
    sizes: dict[str, float] = {}
    tokens: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    longest = longest_completion(plan)
    for shard in {shard.ref: shard for shard in plan.shards()}.values():
        if shard.ref in done:
            continue
        for kind, task, amount in _tasks(shard, longest):
            model = shard.parameters[kind]
            size = billions(checkpoint_of(kind, model))
            if size is not None:
                sizes[model["name"]] = size
                tokens[model["name"]][task] += amount
    return [
        ModelCost(name, size, sum(tokens[name].values()), _hours(size, tokens[name]))
        for name, size in sizes.items()
    ]


def _hours(billions: float, tokens: Mapping[str, float]) -> float:
    operations = sum(amount * _OPERATIONS[task] / _SHARE[task] for task, amount in tokens.items())
    return operations * billions * 1e9 / _PEAK / 3600


def _tasks(shard: Shard, longest: int) -> Iterator[tuple[str, str, float]]:
    """Which model does what on how many tokens: ("llm" or "prm", task, tokens)."""
    kind, whole = shard.ref.kind, trajectory_tokens(longest)
    read = shard.size * (QUESTION_TOKENS + whole)
    if kind == "rollout":
        yield "llm", "generate", shard.size * completion_tokens(shard)
    elif kind == "success":
        yield "llm", "generate", shard.size * prefixes(longest) * completion_tokens(shard)
    elif kind == "search":
        drawn = shard.size * shard.parameters["candidates"]
        yield "llm", "generate", drawn * prefixes(longest) * completion_tokens(shard)
        every = shard.parameters["strategy"]["arguments"].get("every", 1)
        yield "prm", "read", drawn * prefixes(longest) / every * (QUESTION_TOKENS + whole / 2)
    elif kind in ("score", "hidden") or (kind == "calibrated" and shard.resource):
        yield "prm", "read", read
    elif kind == "fit" and shard.resource:
        yield "prm", "train", _EPOCHS * read


def checkpoint_of(kind: str, model: Mapping[str, Any]) -> str:
    """The checkpoint that a shard's LLM or PRM is loaded from, by the model's plugin if not given; or empty."""
    named = model["arguments"].get("checkpoint")
    return str(named or getattr(KINDS[kind].get(model["plugin"]), "checkpoint", ""))


def billions(checkpoint: str) -> float | None:
    """A model's parameters in billions, from its checkpoint's name; None if that does not say."""
    found = _BILLIONS.findall(checkpoint.replace("_", "-"))
    return float(found[-1]) if found else None
