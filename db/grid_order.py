"""The order of the grid, in which plugins and cells are shown."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from prmcal.db.tables import Cell, Plugin

__all__ = ["grid_order"]


def grid_order(*kinds: str) -> list[sa.ScalarSelect[Any]]:
    """Return columns that order cells as the grid orders its plugins of these kinds."""
    return [
        sa.select(Plugin.position)
        .where(Plugin.kind == kind, Plugin.name == getattr(Cell, kind))
        .scalar_subquery()
        for kind in kinds
    ]
