"""Captions that several pages share."""

from __future__ import annotations

__all__ = ["BINS", "RELIABILITY"]

RELIABILITY = (
    "Points: success rate and mean reward of each bin, with 95% intervals. Below the dashed diagonal, rewards "
    "overestimate the success probability."
)
"""How to read a reliability diagram."""

BINS = "Bars: number of prefixes in each bin."
"""How to read the histogram below a reliability diagram."""
