"""The assumed lengths of texts, for the costs of work of which nothing is computed yet."""

from __future__ import annotations

from prmcal.harness.jobs.parameters import GeneratingParameters, SearchParameters, SuccessParameters
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
"""Tokens of a step. The paper's 40,000 to 80,000 prefixes of 4,000 trajectories are 10 to 20 per trajectory."""
_FEWEST_PREFIXES = 6


def trajectory_tokens(max_tokens: int) -> float:
    """Return the tokens of a whole solution."""
    return SHARE_OF_LONGEST * max_tokens


def prefixes(max_tokens: int) -> int:
    """Return the number of prefixes of a trajectory, including the bare question."""
    return max(_FEWEST_PREFIXES, 1 + round(trajectory_tokens(max_tokens) / STEP_TOKENS))


def longest_completion(plan: Plan) -> int:
    """Return the grid's max_tokens; 0 if nothing is generated."""
    found = (shard.parameters for shard in plan.shards())
    return next((each.sampling.max_tokens for each in found if isinstance(each, GeneratingParameters)), 0)


def completion_tokens(parameters: GeneratingParameters) -> float:
    """Return the tokens of a completion. A follow-up is half a solution on average, and a search samples steps."""
    whole = trajectory_tokens(parameters.sampling.max_tokens)
    if isinstance(parameters, SearchParameters):
        return min(STEP_TOKENS, whole)
    return whole / 2 if isinstance(parameters, SuccessParameters) else whole
