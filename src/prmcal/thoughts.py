"""The thoughts of reasoning models: the text between the tags <think> and </think>.

No other module knows the tags. All packages may import it.
"""

from __future__ import annotations

__all__ = ["THOUGHT_BEGINS", "THOUGHT_ENDS", "behind_thought", "in_thought", "opens_thought"]

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
