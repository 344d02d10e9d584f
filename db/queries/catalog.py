"""What readers ask of a database. Every function takes a path or a connection and returns DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from prmcal.db.queries.compare import compare
from prmcal.db.queries.costs import costs
from prmcal.db.queries.curves import curve_areas, curve_points, frontier, references, risk_points, searches
from prmcal.db.queries.leaderboard import (
    COORDINATES,
    METRICS,
    SIGNIFICANCE,
    Metric,
    leaderboard,
    measurements,
)
from prmcal.db.queries.pools import calibration_cells, places, rewards_of
from prmcal.db.queries.provenance import CellDetail, cell
from prmcal.db.queries.reported import beside_measured
from prmcal.db.queries.runs import job_page, planned_shards
from prmcal.db.queries.scaling import scaling_pool
from prmcal.db.queries.trajectories import (
    QUESTION_ORDERS,
    prefixes,
    question_page,
    questions,
    trajectories,
    worst_prefixes,
)
from prmcal.db.reader import Source, fingerprint, frame, reading
from prmcal.db.tables import Cell, Comparison, Dataset, Job, Plugin, ReliabilityBin, Run, SignedErrorBin

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COORDINATES",
    "METRICS",
    "QUESTION_ORDERS",
    "SIGNIFICANCE",
    "CellDetail",
    "Metric",
    "beside_measured",
    "calibration_cells",
    "cell",
    "cells",
    "compare",
    "comparisons",
    "costs",
    "curve_areas",
    "curve_points",
    "datasets",
    "fingerprint",
    "frontier",
    "job_page",
    "jobs",
    "leaderboard",
    "measurements",
    "planned_shards",
    "plugins",
    "prefixes",
    "question_page",
    "questions",
    "reading",
    "references",
    "reliability",
    "rewards_of",
    "risk_points",
    "runs",
    "scaling_pool",
    "searches",
    "signed_errors",
    "trajectories",
    "worst_prefixes",
]


def reliability(source: Source, cell_id: str) -> pd.DataFrame:
    """Return the bins of a cell's reliability diagram, ascending; none for a cell without rewards."""
    query = sa.select(ReliabilityBin).where(ReliabilityBin.cell_id == cell_id).order_by(ReliabilityBin.bin)
    return frame(source, query).drop(columns="cell_id")


def signed_errors(source: Source, cell_id: str) -> pd.DataFrame:
    """Return the bars of a cell's signed-error histogram, ascending; none for a cell without rewards."""
    query = sa.select(SignedErrorBin).where(SignedErrorBin.cell_id == cell_id).order_by(SignedErrorBin.bin)
    return frame(source, query).drop(columns="cell_id")


def cells(source: Source) -> pd.DataFrame:
    """Return all cells of both leaderboards with their status and reason, in the order of the grid."""
    order = places("dataset", "llm", "prm", "strategy", "calibrator")
    return frame(source, sa.select(Cell).order_by(Cell.leaderboard, *order, Cell.cell_id))


def comparisons(source: Source) -> pd.DataFrame:
    """Return all paired comparisons."""
    order = (Comparison.leaderboard, Comparison.metric, Comparison.cell_a, Comparison.cell_b)
    return frame(source, sa.select(Comparison).order_by(*order))


def runs(source: Source) -> pd.DataFrame:
    """Return the runs, oldest first."""
    return frame(source, sa.select(Run).order_by(Run.started_at, Run.run_id))


def jobs(source: Source) -> pd.DataFrame:
    """Return all jobs of the plan with their status and cost."""
    return frame(
        source, sa.select(Job).order_by(Job.kind, Job.llm, Job.prm, Job.calibrator, Job.dataset, Job.job_key)
    )


def plugins(source: Source) -> pd.DataFrame:
    """Return what the names of the grid stand for, in the order of the grid."""
    return frame(source, sa.select(Plugin).order_by(Plugin.kind, Plugin.position, Plugin.name))


def datasets(source: Source) -> pd.DataFrame:
    """Return the splits of data sets that were used."""
    return frame(source, sa.select(Dataset).order_by(Dataset.name, Dataset.split))
