"""The assumed lengths of texts and times, for the costs of work of which nothing is computed yet."""

from __future__ import annotations

from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    GeneratingParameters,
    MeasuringParameters,
    Parameters,
    SearchParameters,
    SuccessParameters,
)
from prmcal.harness.planning.plan import Plan

__all__ = [
    "SHARE_OF_LONGEST",
    "STEP_TOKENS",
    "completion_tokens",
    "followed_up",
    "longest_completion",
    "prefixes",
    "seconds_without_model",
    "trajectory_tokens",
]

SHARE_OF_LONGEST = 0.4
"""Tokens of a whole solution, as a share of the grid's max_tokens."""
STEP_TOKENS = 60
"""Tokens of a step. The paper's 40,000 to 80,000 prefixes of 4,000 trajectories are 10 to 20 per trajectory."""
_FEWEST_PREFIXES = 6
_SECONDS_OF_REPLICATE = 1e-6
_SECONDS_OF_TRAJECTORY = 1e-3
_SECONDS_OF_SHARD = 0.05
"""Measured on one core with the grid `nano`: a replicate of one question, a trajectory that a calibrator reads, and the
reading and writing of files."""


def trajectory_tokens(max_tokens: int) -> float:
    """Return the tokens of a whole solution."""
    return SHARE_OF_LONGEST * max_tokens


def prefixes(max_tokens: int) -> int:
    """Return the number of prefixes of a trajectory, including the bare question."""
    return max(_FEWEST_PREFIXES, 1 + round(trajectory_tokens(max_tokens) / STEP_TOKENS))


def followed_up(max_tokens: int, most_prefixes: int | None) -> int:
    """Return the number of prefixes of a trajectory that are followed up, of at most `most_prefixes`; None for all."""
    every = prefixes(max_tokens)
    return every if most_prefixes is None else min(every, most_prefixes)


def longest_completion(plan: Plan) -> int:
    """Return the grid's max_tokens; 0 if nothing is generated."""
    found = (shard.parameters for shard in plan.shards())
    return next((each.sampling.max_tokens for each in found if isinstance(each, GeneratingParameters)), 0)


def completion_tokens(parameters: GeneratingParameters) -> float:
    """Return the tokens of a completion. A follow-up is half a solution on average, and a search samples steps."""
    whole = trajectory_tokens(parameters.sampling.max_tokens)
    if isinstance(parameters, SearchParameters):
        return whole / (prefixes(parameters.sampling.max_tokens) - 1)
    return whole / 2 if isinstance(parameters, SuccessParameters) else whole


def seconds_without_model(shard: Shard[Parameters]) -> float:
    """Return the seconds of a shard that runs no model."""
    given = shard.parameters
    if isinstance(given, MeasuringParameters):
        return _SECONDS_OF_SHARD + _SECONDS_OF_REPLICATE * shard.size * given.bootstrap.replicates
    return _SECONDS_OF_SHARD + _SECONDS_OF_TRAJECTORY * shard.size
