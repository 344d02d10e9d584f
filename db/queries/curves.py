"""Curves of accuracy against cost as the run computed them, their areas, and the Pareto frontier of strategies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from prmcal.db.metrics import COORDINATES
from prmcal.db.queries.leaderboard import leaderboard
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.roles import with_role
from prmcal.db.statistics import frontier as pareto
from prmcal.db.tables import Cell, CurveArea, CurvePoint, Job, JobInput, QuestionResult, RiskPoint

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "asking_others",
    "curve_areas",
    "curve_points",
    "frontier",
    "question_accuracies",
    "references",
    "risk_points",
    "searches",
]

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


def asking_others(source: Source) -> list[str]:
    """Return the cells of strategies that ask other LLMs, whose samples cost more or less than those of their own."""
    query = (
        sa.select(Cell.cell_id)
        .join(JobInput, JobInput.job_key == Cell.job_key)
        .join(Job, Job.job_key == JobInput.input_key)
        .where(Cell.leaderboard == "scaling", Job.llm != Cell.llm)
        .distinct()
        .order_by(Cell.cell_id)
    )
    return list(frame(source, query)["cell_id"])


def question_accuracies(source: Source, cells: Sequence[str]) -> pd.DataFrame:
    """Return the accuracy of cells on single questions: a row for each question_id, a column for each cell.

    A cell without values for single questions has no column. A question that a cell lacks is NaN.
    """
    query = sa.select(QuestionResult.question_id, QuestionResult.cell_id, QuestionResult.value).where(
        QuestionResult.metric == "accuracy", QuestionResult.cell_id.in_(list(cells))
    )
    return frame(source, query).pivot(index="question_id", columns="cell_id", values="value")


def frontier(source: Source, cost: str = "generated_tokens") -> pd.DataFrame:
    """Return the competing strategies of each data set, LLM and PRM, and whether they are on the Pareto frontier.

    :func:`prmcal.db.statistics.frontier.frontier` defines the frontier. Strategies without a PRM compete with those of
    every PRM. Strategies that need the truth do not compete, nor do cells without values for single questions. If the
    cost is samples, searches and strategies that ask other LLMs do not compete either.

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
        and on_frontier. A cell has one row for each group in which it competes.
    """
    import pandas as pd

    with connection_of(source) as connection:
        table = leaderboard(connection, "scaling")[["cell_id", *COORDINATES, "accuracy", cost]]
        out = references(connection)
        if cost == "samples":
            out += searches(connection) + asking_others(connection)
        table = table[~table["cell_id"].isin(out)].dropna(subset=["accuracy", cost])
        values = question_accuracies(connection, list(table["cell_id"]))
    table = table[table["cell_id"].isin(values.columns)]
    parts = []
    for keys, group in table[table["prm"].notna()].groupby(["dataset", "llm", "prm"], sort=False):
        alone = table[table["prm"].isna() & (table["dataset"] == keys[0]) & (table["llm"] == keys[1])]
        both = pd.concat([alone.assign(prm=keys[2]), group], ignore_index=True)
        paired = values[list(both["cell_id"])].dropna().to_numpy(np.float64)
        marks = pareto.frontier(both[cost], both["accuracy"], pareto.more_accurate(paired))
        parts.append(both.assign(on_frontier=marks))
    return pd.concat(parts, ignore_index=True) if parts else table.assign(on_frontier=True)


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
