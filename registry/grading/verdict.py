"""The verdict on a final answer."""

from __future__ import annotations

from typing import Literal

__all__ = ["Verdict"]

Verdict = Literal["correct", "incorrect", "unparsed", "timed out"]
"""``unparsed``: no final answer was found. ``timed out``: the comparison exceeded its limits of time or memory."""
