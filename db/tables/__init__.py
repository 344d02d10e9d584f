"""The tables of the database, with a description of each column. Queries on them belong in `queries`."""

from __future__ import annotations

from prmcal.db.tables.base import SCHEMA_VERSION, Base
from prmcal.db.tables.curves import CurveArea, CurvePoint, LeaguePoint, RiskPoint, SampleAccuracy
from prmcal.db.tables.results import Cell, Comparison, QuestionResult, ReliabilityBin, Result, SignedErrorBin
from prmcal.db.tables.runs import (
    Dataset,
    DescribedMetric,
    Job,
    JobInput,
    Plugin,
    Question,
    Run,
    SchemaVersion,
)
from prmcal.db.tables.submissions import CellSubmission, SeedSpread, Submission, Verification
from prmcal.db.tables.trajectories import CalibratedReward, Reward, Search, SuccessCount, Trajectory

__all__ = [
    "SCHEMA_VERSION",
    "Base",
    "CalibratedReward",
    "Cell",
    "CellSubmission",
    "Comparison",
    "CurveArea",
    "CurvePoint",
    "Dataset",
    "DescribedMetric",
    "Job",
    "JobInput",
    "LeaguePoint",
    "Plugin",
    "Question",
    "QuestionResult",
    "ReliabilityBin",
    "Result",
    "Reward",
    "RiskPoint",
    "Run",
    "SampleAccuracy",
    "SchemaVersion",
    "Search",
    "SeedSpread",
    "SignedErrorBin",
    "Submission",
    "SuccessCount",
    "Trajectory",
    "Verification",
]
