"""Every table of the database, from small to heavy."""

from __future__ import annotations

from db.base import SCHEMA_VERSION, Base
from db.curve_tables import CurveArea, CurvePoint, RiskPoint, SampleAccuracy
from db.result_tables import Cell, Comparison, QuestionResult, ReliabilityBin, Result, SignedErrorBin
from db.run_tables import Dataset, Job, JobInput, Plugin, Question, Run, SchemaVersion
from db.trajectory_tables import CalibratedReward, Reward, Search, SuccessCount, Trajectory

__all__ = [
    "SCHEMA_VERSION",
    "Base",
    "CalibratedReward",
    "Cell",
    "Comparison",
    "CurveArea",
    "CurvePoint",
    "Dataset",
    "Job",
    "JobInput",
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
    "SignedErrorBin",
    "SuccessCount",
    "Trajectory",
]
