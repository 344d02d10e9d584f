"""What readers see of the metrics of a run."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from prmcal.db.metrics import Metric, Metrics
from prmcal.db.reader import Source, connection_of
from prmcal.db.tables import DescribedMetric

__all__ = ["metrics"]


def metrics(source: Source) -> Metrics:
    """Return the metrics of both leaderboards, in the order of columns."""
    row = DescribedMetric
    query = sa.select(row.name, row.title, row.leaderboard, row.better, row.description).order_by(
        row.position
    )
    with connection_of(source) as connection:
        found: Any = connection.execute(query)
        return Metrics(Metric(*each) for each in found)
