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
    Trajectory,
    Verdict,
)
from prmcal.db.tables.runs import (
    LAST_WRITTEN,
    SCHEMA_VERSION,
    Base,
    Dataset,
    DescribedMetric,
    Job,
    JobInput,
    Plugin,
    Question,
    Run,
    SchemaVersion,
)
