"""The order of the ranking by itself, without the intervals, which take a hundred times as long."""

from __future__ import annotations

import sqlalchemy as sa

from prmcal.db.metrics import RANKING_METRIC
from prmcal.db.overview.averages import PLACE
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import Cell, QuestionResult

__all__ = ["ranking_order"]


def ranking_order(source: Source) -> list[str]:
    """Return the calibrators of a grid as :func:`prmcal.db.overview.query.overview` ranks them, the best first.

    Parameters
    ----------
    source : Path or Connection
        The published copy.

    Returns
    -------
    list of str
        Empty if no place has two calibrators with results.
    """
    places = [getattr(Cell, name) for name in PLACE]
    query = (
        sa.select(
            *places,
            Cell.calibrator,
            sa.func.sum(QuestionResult.value).label("total"),
            sa.func.count(QuestionResult.value).label("questions"),
        )
        .join(QuestionResult, QuestionResult.cell_id == Cell.cell_id)
        .where(
            Cell.leaderboard == "calibration", Cell.status == "done", QuestionResult.metric == RANKING_METRIC
        )
        .group_by(*places, Cell.calibrator)
    )
    with connection_of(source) as connection:
        found = frame(connection, query)
    if found.empty:
        return []
    sums = found.groupby("calibrator")[["total", "questions"]].sum()
    overall = sums["total"] / sums["questions"]
    found["mean"] = found["total"] / found["questions"]
    several = found[found.groupby(PLACE)["calibrator"].transform("size") > 1]
    ranks = several.groupby(PLACE)["mean"].rank(method="average").groupby(several["calibrator"]).mean()
    return sorted(ranks.index, key=lambda name: (ranks[name], overall[name], name))
