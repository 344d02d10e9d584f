"""The tables of the database, with a description of each column. Queries on them belong in `queries`."""

from prmcal.db.tables.results import (
    CalibratedReward,
    Cell,
    Comparison,
    CurvePoint,
    HealthCheck,
    LeaguePoint,
    QuestionResult,
    ReliabilityBin,
    Result,
    Reward,
    SampleAccuracy,
    Search,
    SignedErrorBin,
    SuccessCount,
    TrajectoryRow,
    Verdict,
)
from prmcal.db.tables.runs import (
    LAST_WRITTEN,
    SCHEMA_VERSION,
    Base,
    DatasetRow,
    DescribedMetric,
    JobInput,
    JobRow,
    PluginRow,
    QuestionRow,
    RunRow,
    SchemaVersion,
)
