"""The jobs behind a cell: what its trajectories, success counts, rewards and calibrated rewards are stored under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.queries.provenance import cell_row
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import Cell, Job, JobInput, Plugin

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Pool", "calibration_cells", "places", "pool_of", "rewards_of"]


@dataclass(frozen=True)
class Pool:
    """Where the prefixes of a cell are found.

    Attributes
    ----------
    cell : dict
        The row of the calibration cell, table ``cells``.
    dataset, split : str
        The questions.
    rollout, success, score, calibrated : str
        Keys of the jobs that made trajectories, success counts, rewards and calibrated rewards. Empty where the
        database knows no such job.
    """

    cell: dict[str, Any]
    dataset: str
    split: str
    rollout: str
    success: str
    score: str
    calibrated: str


def calibration_cells(source: Source) -> pd.DataFrame:
    """Return cell_id, llm, prm, calibrator, dataset, status and reason of all calibration cells, in grid order."""
    kinds = ("llm", "prm", "calibrator", "dataset")
    columns = [getattr(Cell, name) for name in ("cell_id", *kinds, "status", "reason")]
    order = places("dataset", "llm", "prm", "calibrator")
    return frame(
        source, sa.select(*columns).where(Cell.leaderboard == "calibration").order_by(*order, Cell.cell_id)
    )


def rewards_of(source: Source, cell_id: str) -> str:
    """Return the calibration cell that a cell of either leaderboard rests on: its own if it is one.

    Raises
    ------
    UnknownCellError
        If there is no such cell.
    """
    with connection_of(source) as connection:
        found: str = pool_of(connection, cell_id).cell["cell_id"]
        return found


def pool_of(connection: sa.Connection, cell_id: str) -> Pool:
    """Return the jobs behind a cell of either leaderboard.

    A cell of the scaling leaderboard rests on the rewards of the calibration cell with its LLM, PRM, calibrator and
    data set; where it has no PRM or no calibrator, on those of the grid's first.

    Raises
    ------
    UnknownCellError
        If there is no such cell, with the nearest ones.
    """
    row = _calibration_cell(connection, cell_row(connection, cell_id))
    measured = _inputs(connection, [row["job_key"]])
    calibrated, success = measured.get("calibrated", ""), measured.get("success", "")
    below = _inputs(connection, [key for key in (calibrated, success) if key])
    split = connection.scalar(sa.select(Job.split).where(Job.job_key == row["job_key"]))
    return Pool(
        cell=row,
        dataset=row["dataset"],
        split=split or "",
        rollout=below.get("rollout", ""),
        success=success,
        score=below.get("score", ""),
        calibrated=calibrated,
    )


def _inputs(connection: sa.Connection, keys: list[str]) -> dict[str, str]:
    query = (
        sa.select(Job.kind, Job.job_key)
        .join(JobInput, JobInput.input_key == Job.job_key)
        .where(JobInput.job_key.in_(keys))
    )
    return {row.kind: row.job_key for row in connection.execute(query)}


def _calibration_cell(connection: sa.Connection, row: dict[str, Any]) -> dict[str, Any]:
    if row["leaderboard"] == "calibration":
        return row
    named = [getattr(Cell, kind) == row[kind] for kind in ("prm", "calibrator") if row[kind] is not None]
    query = (
        sa.select(Cell.__table__)
        .where(Cell.leaderboard == "calibration", Cell.llm == row["llm"], Cell.dataset == row["dataset"])
        .where(*named)
        .order_by(*places("prm", "calibrator"))
        .limit(1)
    )
    found = connection.execute(query).mappings().one_or_none()
    return row if found is None else dict(found)


def places(*kinds: str) -> list[sa.ScalarSelect[Any]]:
    """The places in the grid of a cell's plugins of these kinds, to order cells by."""
    return [
        sa.select(Plugin.position)
        .where(Plugin.kind == kind, Plugin.name == getattr(Cell, kind))
        .scalar_subquery()
        for kind in kinds
    ]
