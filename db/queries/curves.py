"""Accuracy against cost: the curves and their areas, which strategies nothing beats, and which do not compete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa
from numpy.typing import ArrayLike, NDArray

from prmcal.db.queries.leaderboard import COORDINATES, leaderboard
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import Cell, CurveArea, CurvePoint, Job, JobInput, Plugin, RiskPoint

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["curve_areas", "curve_points", "frontier", "references", "risk_points", "searches", "unbeaten"]

_NEED_THE_TRUTH = ("oracle IAS", "pass@N")
_OF_JOB = (Job.dataset, Job.llm, Job.prm, Job.calibrator)


def curve_points(source: Source) -> pd.DataFrame:
    """Return the points of all curves: dataset, llm, prm, calibrator (null: fixed n), then the table's columns."""
    return _of_jobs(source, CurvePoint, CurvePoint.question_level, CurvePoint.level, CurvePoint.point)


def curve_areas(source: Source) -> pd.DataFrame:
    """Return the areas under all curves: dataset, llm, prm, calibrator (null: fixed n), then the table's columns."""
    return _of_jobs(source, CurveArea, CurveArea.name, CurveArea.level)


def risk_points(source: Source) -> pd.DataFrame:
    """Return risk and coverage at every threshold: dataset, llm, prm, calibrator, then the table's columns."""
    return _of_jobs(source, RiskPoint, RiskPoint.level, RiskPoint.threshold)


def references(source: Source) -> list[str]:
    """Return the cells of strategies that no one could run, since they need the truth: oracle IAS and pass@N."""
    query = (
        sa.select(Cell.cell_id)
        .join(Plugin, sa.and_(Plugin.kind == "strategy", Plugin.name == Cell.strategy))
        .where(Plugin.plugin.in_(_NEED_THE_TRUTH))
        .order_by(Cell.cell_id)
    )
    return list(frame(source, query)["cell_id"])


def searches(source: Source) -> list[str]:
    """Return the cells of searches. Their samples are steps, those of all other strategies whole trajectories."""
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
    """Return the strategies of each (data set, LLM, PRM) that no other beats in both cost and accuracy.

    Strategies without a PRM compete with those of every PRM. Strategies that need the truth do not compete, nor do
    searches where the cost is samples. Values are compared as they are, not their intervals.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    cost : str
        A cost of the scaling leaderboard.

    Returns
    -------
    DataFrame
        Columns cell_id, those of :data:`prmcal.db.queries.leaderboard.COORDINATES` (prm: the group's), accuracy, the
        cost and unbeaten; one row for each cell in each group in which it competes.
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
    """Which points no other beats: as accurate at less cost, or more accurate at no more. Equal points all stay."""
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
