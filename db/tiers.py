"""The tiers of a verification. They are apart from the tables of the database, which take a while to import."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["TIERS", "Tier"]

Tier = Literal["consistent", "graded again", "scored again", "reproduced"]
"""A tier of a verification. Each includes those before it."""

TIERS: tuple[Tier, ...] = get_args(Tier)
"""The tiers in their order."""
