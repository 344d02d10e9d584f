"""All queries by name. Each takes a path or a connection; most return a DataFrame."""

import pandas as pd
import sqlalchemy as sa

from prmcal.db.overview.query import league, league_points, overview
from prmcal.db.queries.cells import cell, cell_numbers, metrics, with_role
from prmcal.db.queries.curves import curve_points, exact_curves, question_accuracies, references, searches
from prmcal.db.queries.groups import by_group, grouping_fields
from prmcal.db.queries.leaderboard import error_histograms, leaderboard, measurements
from prmcal.db.queries.runs import planned_shards
from prmcal.db.queries.trajectories import prefixes, solutions, trajectories
from prmcal.db.queries.two_cells import compare_cells
from prmcal.db.reader import Source, frame
from prmcal.db.tables import Cell, Comparison, DatasetRow, JobRow, PluginRow, ReliabilityBin, RunRow


def reliability(source: Source, cell_id: str) -> pd.DataFrame:
    """Return the bins of the reliability diagram of a cell, ascending. Scaling cells have no such bins."""
    query = sa.select(ReliabilityBin).where(ReliabilityBin.cell_id == cell_id).order_by(ReliabilityBin.bin)
    return frame(source, query).drop(columns="cell_id")


def cells(source: Source) -> pd.DataFrame:
    """Return all cells of both leaderboards with short numbers, status and reason, in the order of the numbers."""
    numbers = cell_numbers()
    query = sa.select(numbers.c.number, Cell).join(numbers, numbers.c.cell_id == Cell.cell_id)
    return frame(source, query.order_by(numbers.c.number))


def comparisons(source: Source) -> pd.DataFrame:
    """Return all paired comparisons."""
    order = (Comparison.leaderboard, Comparison.metric, Comparison.cell_a, Comparison.cell_b)
    return frame(source, sa.select(Comparison).order_by(*order))


def runs(source: Source) -> pd.DataFrame:
    """Return all runs, the oldest first."""
    return frame(source, sa.select(RunRow).order_by(RunRow.started_at, RunRow.run_id))


def jobs(source: Source) -> pd.DataFrame:
    """Return all jobs of the plan with status and cost."""
    order = JobRow.columns("kind", "llm", "prm", "calibrator", "dataset", "job_key")
    return frame(source, sa.select(JobRow).order_by(*order))


def plugins(source: Source) -> pd.DataFrame:
    """Return the plugins of the grid, in the order of the grid."""
    return frame(source, sa.select(PluginRow).order_by(PluginRow.kind, PluginRow.position, PluginRow.name))
