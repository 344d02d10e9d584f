"""Layout 7: the names of plugins in the grids, which variants on a merged leaderboard share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.operations import Operations

__all__ = ["upgrade"]


def upgrade(op: Operations) -> None:
    """Change a database of layout 6. A merged leaderboard has the names when it is rebuilt."""
    comment = "Name in the grids, which variants on a merged leaderboard share; null: name"
    op.add_column("plugins", sa.Column("base_name", sa.Text(), nullable=True, comment=comment))
