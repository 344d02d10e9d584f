"""The steps of a trajectory: a blank line separates them.

No other module knows this rule. All packages may import it.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["STEP_SEPARATOR", "join_steps", "split_steps", "text_so_far"]

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
