"""What is taken for granted of a shard's texts before any like it was computed: for plans."""

from __future__ import annotations

from prmcal.harness.jobs.job import Shard
from prmcal.harness.planning.plan import Plan

__all__ = [
    "SHARE_OF_LONGEST",
    "STEP_TOKENS",
    "completion_tokens",
    "longest_completion",
    "prefixes",
    "trajectory_tokens",
]

SHARE_OF_LONGEST = 0.4
"""Tokens of a whole solution, as a share of the grid's max_tokens."""
STEP_TOKENS = 60
"""Of a step: the paper's 40,000 to 80,000 prefixes of 4,000 trajectories are 10 to 20 each."""
_FEWEST_PREFIXES = 6


def trajectory_tokens(max_tokens: int) -> float:
    """Tokens of a whole solution."""
    return SHARE_OF_LONGEST * max_tokens


def prefixes(max_tokens: int) -> int:
    """Prefixes of a trajectory, the bare question among them."""
    return max(_FEWEST_PREFIXES, 1 + round(trajectory_tokens(max_tokens) / STEP_TOKENS))


def longest_completion(plan: Plan) -> int:
    """The grid's max_tokens."""
    return next(
        (
            int(shard.parameters["sampling"]["max_tokens"])
            for shard in plan.shards()
            if "sampling" in shard.parameters
        ),
        0,
    )


def completion_tokens(shard: Shard) -> float:
    """Tokens of a completion: a follow-up begins half-way on average, and a search draws single steps."""
    whole = trajectory_tokens(shard.parameters["sampling"]["max_tokens"])
    if shard.ref.kind == "search":
        return min(STEP_TOKENS, whole)
    return whole / 2 if shard.ref.kind == "success" else whole
