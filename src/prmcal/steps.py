"""The steps of a solution, which blank lines separate, and thoughts, which tags enclose."""

from __future__ import annotations

from collections.abc import Sequence

STEP_SEPARATOR = "\n\n"


def split_steps(text: str) -> tuple[str, ...]:
    """Split a trajectory into its steps x_1..x_T. Empty steps are dropped."""
    return tuple(step for step in (part.strip("\n") for part in text.split(STEP_SEPARATOR)) if step.strip())


def join_steps(steps: Sequence[str]) -> str:
    """Join steps to a text that ends with the last step."""
    return STEP_SEPARATOR.join(steps)


def text_so_far(steps: Sequence[str]) -> str:
    """Join steps to a text that a completion continues: a separator follows each step."""
    return "".join(step + STEP_SEPARATOR for step in steps)


THOUGHT_BEGINS = "<think>"
THOUGHT_ENDS = "</think>"


def in_thought(text: str) -> bool:
    """Tell whether a text ends inside a thought."""
    return text.rfind(THOUGHT_BEGINS) > text.rfind(THOUGHT_ENDS)


def behind_thought(text: str) -> str:
    """Return what follows the last thought of a text: all of it if there is no thought, nothing if one has no end."""
    return "" if in_thought(text) else text.rpartition(THOUGHT_ENDS)[2]


def opens_thought(prompt: str) -> bool:
    """Tell whether a prompt ends with the tag that begins a thought, so that a completion begins inside it."""
    return prompt.rstrip().endswith(THOUGHT_BEGINS)
