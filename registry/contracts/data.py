"""What passes between the plugins: questions, prefixes, completions, scores.

Steps of a trajectory are separated by a blank line; :func:`split_steps` and
:func:`join_steps` are the only places that know it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "STEP_SEPARATOR",
    "Completion",
    "GenerationRequest",
    "Prefix",
    "PrefixScores",
    "Question",
    "Sampling",
    "ScoringRequest",
    "Verdict",
    "join_steps",
    "split_steps",
]

STEP_SEPARATOR = "\n\n"

Verdict = Literal["correct", "incorrect", "unparsed", "timed out"]
"""``unparsed``: there is no final answer. ``timed out``: comparing it ran over its limits of time or memory."""


@dataclass(frozen=True, slots=True)
class Question:
    """A problem with its reference answer.

    Attributes
    ----------
    id : str
        Unique within its data set and split.
    text, answer : str
        What the LLM reads; the reference answer, without a box.
    level : int or None
        Difficulty 1 (easy) to 5 (hard).
    subject : str or None
        Topic.
    """

    id: str
    text: str
    answer: str
    level: int | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """A question and the first t steps of a trajectory; t = 0 is the bare question."""

    question: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How completions are drawn.

    Attributes
    ----------
    temperature : float
        Above 0: success is defined over a stochastic policy (Definition 1).
    top_p : float
        Nucleus mass in (0, 1].
    max_tokens : int
        Tokens that one completion may have at the most.
    stop : tuple of str
        A completion ends before the first of these strings.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled continuation of a prefix.

    Attributes
    ----------
    text : str
        Its own text only, the prefix not repeated.
    tokens : int
        Tokens that were generated.
    finish_reason : {"stop", "length"}
        Whether it came to an end of its own.
    prompt_tokens : int
        Tokens of the prefix that it continues, for the costs; 0 if the LLM does not tell.
    """

    text: str
    tokens: int
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prefix to continue: how often, and the seed of its completions."""

    prefix: Prefix
    n: int
    seed: int


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """One question with trajectories to score, each a sequence of steps.

    Attributes
    ----------
    question : str
    trajectories : tuple of tuples of str
    whole_only : bool
        Whether the score of each whole trajectory is all that will be read. A PRM may then leave out those of its
        shorter prefixes, and answer with one score instead of T+1: the last is that of the whole either way.
    """

    question: str
    trajectories: tuple[tuple[str, ...], ...]
    whole_only: bool = False


@dataclass(frozen=True, slots=True)
class PrefixScores:
    """The scores of all T+1 prefixes of one trajectory, t = 0 first; or of the whole alone, if no more was asked for.

    Attributes
    ----------
    logit : ndarray of shape (T+1,), float32
        Log-odds of success.
    reward : ndarray of shape (T+1,), float64
        The score as a probability in [0, 1].
    over_long : ndarray of shape (T+1,), bool
        Whether the prefix did not fit into the PRM's context. Such a prefix is scored NaN, never cut.
    tokens : int
        Tokens that the PRM read for this trajectory, shared ones counted once.
    """

    logit: NDArray[np.float32]
    reward: NDArray[np.float64]
    over_long: NDArray[np.bool_]
    tokens: int


def split_steps(text: str) -> tuple[str, ...]:
    """Split a trajectory into its steps x_1..x_T; empty steps are dropped."""
    return tuple(step for step in (part.strip("\n") for part in text.split(STEP_SEPARATOR)) if step.strip())


def join_steps(steps: Sequence[str]) -> str:
    """Join steps to a prefix text, without a separator at its end."""
    return STEP_SEPARATOR.join(steps)
