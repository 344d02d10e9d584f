"""The cells of a merged leaderboard that were verified at a tier.

The tiers themselves are :data:`prmcal.db.tier_names.TIERS`.
"""

from __future__ import annotations

import sqlalchemy as sa

from prmcal.db.tables import Cell
from prmcal.db.tier_names import TIERS

__all__ = ["at_least"]


def at_least(tier: str) -> sa.ColumnElement[bool]:
    """Return the condition that a cell was verified at this tier or at a higher one."""
    return Cell.tier.in_(TIERS[TIERS.index(tier) :])
