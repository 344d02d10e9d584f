"""Curves of accuracy against cost as the run computed them, their areas, and the Pareto frontier of strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa
from numpy.typing import ArrayLike, NDArray

from prmcal.db.metrics import COORDINATES
from prmcal.db.queries.leaderboard import leaderboard
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.roles import with_role
from prmcal.db.tables import Cell, CurveArea, CurvePoint, Job, JobInput, RiskPoint

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["curve_areas", "curve_points", "frontier", "references", "risk_points", "searches", "unbeaten"]

_OF_JOB = (Job.dataset, Job.llm, Job.prm, Job.calibrator)


def curve_points(source: Source) -> pd.DataFrame:
    """Return the points of all curves: dataset, llm, prm, calibrator (null: fixed n) and the columns of the table."""
    return _of_jobs(source, CurvePoint, CurvePoint.question_level, CurvePoint.level, CurvePoint.point)


def curve_areas(source: Source) -> pd.DataFrame:
    """Return the areas of all curves: dataset, llm, prm, calibrator (null: fixed n) and the columns of the table."""
    return _of_jobs(source, CurveArea, CurveArea.name, CurveArea.level)


def risk_points(source: Source) -> pd.DataFrame:
    """Return risk and coverage at every threshold: dataset, llm, prm, calibrator and the columns of the table."""
    return _of_jobs(source, RiskPoint, RiskPoint.level, RiskPoint.threshold)


def references(source: Source) -> list[str]:
    """Return the cells of strategies that need the truth, and so cannot be used in practice.

    These are the strategies whose jobs read success counts, and those with the role "reference".
    """
    with connection_of(source) as connection:
        named = Cell.strategy.in_(with_role(connection, "reference"))
        reading_success = (
            sa.select(JobInput.job_key)
            .join(Job, Job.job_key == JobInput.input_key)
            .where(Job.kind == "success")
        )
        informed = sa.and_(Cell.leaderboard == "scaling", Cell.job_key.in_(reading_success))
        query = sa.select(Cell.cell_id).where(sa.or_(named, informed)).order_by(Cell.cell_id)
        return list(frame(connection, query)["cell_id"])


def searches(source: Source) -> list[str]:
    """Return the cells of searches. Their samples are steps; those of all other strategies are trajectories."""
    query = (
        sa.select(Cell.cell_id)
        .join(JobInput, JobInput.job_key == Cell.job_key)
        .join(Job, Job.job_key == JobInput.input_key)
        .where(Cell.leaderboard == "scaling", Job.kind == "search")
        .distinct()
        .order_by(Cell.cell_id)
    )
    return list(frame(source, query)["cell_id"])


def frontier(source: Source, cost: str = "generated_tokens") -> pd.DataFrame:
    """Return the competing strategies of each data set, LLM and PRM, and whether they are on the Pareto frontier.

    Strategies without a PRM compete with those of every PRM. Strategies that need the truth do not compete. If the cost
    is samples, searches do not compete either. Intervals are ignored.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    cost : str
        A metric of the scaling leaderboard that measures cost, such as samples.

    Returns
    -------
    DataFrame
        Columns cell_id, those of :data:`prmcal.db.metrics.COORDINATES` (prm is that of the group), accuracy, the cost
        and unbeaten. A cell has one row for each group in which it competes.
    """
    import pandas as pd

    with connection_of(source) as connection:
        table = leaderboard(connection, "scaling")[["cell_id", *COORDINATES, "accuracy", cost]]
        out = references(connection) + (searches(connection) if cost == "samples" else [])
    table = table[~table["cell_id"].isin(out)].dropna(subset=["accuracy", cost])
    parts = []
    for keys, group in table[table["prm"].notna()].groupby(["dataset", "llm", "prm"], sort=False):
        alone = table[table["prm"].isna() & (table["dataset"] == keys[0]) & (table["llm"] == keys[1])]
        both = pd.concat([alone.assign(prm=keys[2]), group], ignore_index=True)
        parts.append(both.assign(unbeaten=unbeaten(both[cost], both["accuracy"])))
    return pd.concat(parts, ignore_index=True) if parts else table.assign(unbeaten=True)


def unbeaten(costs: ArrayLike, accuracy: ArrayLike) -> NDArray[np.bool_]:
    """Return which points are on the Pareto frontier, as an array of bool.

    A point is beaten by one that is as accurate at a lower cost, or more accurate at no higher cost. Equal points do
    not beat each other.
    """
    cost, gain = np.asarray(costs, dtype=np.float64), np.asarray(accuracy, dtype=np.float64)
    no_worse = (cost[None, :] <= cost[:, None]) & (gain[None, :] >= gain[:, None])
    better = (cost[None, :] < cost[:, None]) | (gain[None, :] > gain[:, None])
    beaten: NDArray[np.bool_] = np.any(no_worse & better, axis=1)
    return ~beaten


def _of_jobs(
    source: Source,
    table: type[CurvePoint] | type[CurveArea] | type[RiskPoint],
    *order: sa.orm.InstrumentedAttribute[object],
) -> pd.DataFrame:
    query = (
        sa.select(*_OF_JOB, table.__table__)
        .join(Job, Job.job_key == table.job_key)
        .order_by(*(column.nulls_first() for column in (*_OF_JOB, *order)))
    )
    return frame(source, query).drop(columns="job_key")
