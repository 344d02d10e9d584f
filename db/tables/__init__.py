"""The tables of the database, with a description of each column. Queries on them belong in `queries`."""

from prmcal.db.tables.results import (
    Cell,
    Comparison,
    CurveArea,
    CurvePoint,
    HealthCheck,
    LeaguePoint,
    QuestionResult,
    ReliabilityBin,
    Result,
    RiskPoint,
    SampleAccuracy,
    SignedErrorBin,
)
from prmcal.db.tables.runs import (
    SCHEMA_VERSION,
    Base,
    CellSubmission,
    Dataset,
    DescribedMetric,
    Job,
    JobInput,
    Plugin,
    Question,
    Run,
    SchemaVersion,
    SeedSpread,
    Submission,
    Verification,
)
from prmcal.db.tables.trajectories import CalibratedReward, Reward, Search, SuccessCount, Trajectory
