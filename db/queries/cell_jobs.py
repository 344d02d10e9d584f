"""The jobs behind a cell, whose keys identify its trajectories, success counts, rewards and calibrated rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.cell_names import cell_numbers
from prmcal.db.queries.provenance import cell_row
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import Cell, Job, JobInput
from prmcal.db.variants import other_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CellJobs", "calibration_cell", "calibration_cells", "jobs_of"]


@dataclass(frozen=True)
class CellJobs:
    """The keys of the jobs behind a calibration cell.

    Attributes
    ----------
    cell : dict
        The row of the calibration cell in the table ``cells``.
    dataset, split : str
        Where the questions come from.
    rollout, success, score, calibrated : str
        Keys of the jobs that computed trajectories, success counts, rewards and calibrated rewards. A key is empty if
        the database has no such job.
    """

    cell: dict[str, Any]
    dataset: str
    split: str
    rollout: str
    success: str
    score: str
    calibrated: str


def calibration_cells(source: Source) -> pd.DataFrame:
    """Return all calibration cells in the order of the grid.

    Returns
    -------
    DataFrame
        Columns cell_id, number (the short number), llm, prm, calibrator, dataset, status and reason.
    """
    numbers = cell_numbers()
    kinds = ("llm", "prm", "calibrator", "dataset")
    columns = [getattr(Cell, name) for name in (*kinds, "status", "reason")]
    query = sa.select(Cell.cell_id, numbers.c.number, *columns).join(
        numbers, numbers.c.cell_id == Cell.cell_id
    )
    return frame(source, query.where(Cell.leaderboard == "calibration").order_by(numbers.c.number))


def calibration_cell(source: Source, cell_id: str) -> str:
    """Return the calibration cell with the rewards that a cell of either leaderboard depends on.

    A calibration cell is returned itself. For a scaling cell, see :func:`jobs_of`.

    Raises
    ------
    UnknownCellError
        If there is no such cell.
    """
    with connection_of(source) as connection:
        found: str = jobs_of(connection, cell_id).cell["cell_id"]
    return found


def jobs_of(connection: sa.Connection, cell_id: str) -> CellJobs:
    """Return the jobs behind a cell of either leaderboard.

    A scaling cell depends on the rewards of the calibration cell with the same LLM, PRM, calibrator and data set. If it
    has no PRM or no calibrator, the first of the grid is used instead. On a merged leaderboard the LLM can have another
    name there: see :func:`prmcal.db.variants.other_names`.

    Raises
    ------
    UnknownCellError
        If there is no such cell. The message has similar identifiers.
    """
    row = _calibration_cell(connection, cell_row(connection, cell_id))
    measured = _inputs(connection, [row["job_key"]])
    calibrated, success = measured.get("calibrated", ""), measured.get("success", "")
    below = _inputs(connection, [key for key in (calibrated, success) if key])
    split = connection.scalar(sa.select(Job.split).where(Job.job_key == row["job_key"]))
    return CellJobs(
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
    numbers = cell_numbers()
    llms = [row["llm"], *other_names(connection).get(row["llm"], ())]
    query = (
        sa.select(Cell.__table__)
        .join(numbers, numbers.c.cell_id == Cell.cell_id)
        .where(Cell.leaderboard == "calibration", Cell.llm.in_(llms), Cell.dataset == row["dataset"])
        .where(*named)
        .order_by(Cell.llm != row["llm"], numbers.c.number)
        .limit(1)
    )
    found = connection.execute(query).mappings().one_or_none()
    return row if found is None else dict(found)
