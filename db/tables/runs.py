"""The base of all tables, and the tables of runs: the plan and its jobs.

No table declares a foreign key, because DuckDB cannot delete a parent and its child in one transaction. The comments of
the columns name the columns that they refer to.
"""

import inspect
from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, declared_attr, mapped_column

SCHEMA_VERSION = 13
"""The layout. Raise it with every change of a table. Databases of other layouts are built again: `prmcal rebuild`."""


LAST_WRITTEN: sa.UnaryExpression[int] = sa.literal_column("rowid").desc()
"""Orders the rows of a table, the newest first. Times would not do, since a clock can be put back."""


class Base(DeclarativeBase):
    """Base of every table: ``float`` has 64 bits; ``datetime`` is UTC without a time zone.

    A class names its table: ``class Run(Base, table="runs")``. Its docstring is the comment in the database.
    """

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        float: sa.Double(),
        str: sa.Text(),
        datetime: sa.DateTime(),
        dict[str, Any]: sa.JSON(),
    }

    def __init_subclass__(cls, table: str = "", **options: Any) -> None:
        if table:
            cls.__tablename__ = table
        super().__init_subclass__(**options)

    @declared_attr.directive
    def __table_args__(cls) -> dict[str, Any]:  # noqa: N805
        return {"comment": inspect.getdoc(cls)}

    @classmethod
    def columns(cls, *names: str) -> list[Any]:
        """Return the columns with these names."""
        return [getattr(cls, name) for name in names]


class BulkBase(Base):
    """Base of the tables that are loaded in bulk. The columns of :func:`identity` identify their rows.

    They have no primary key in the database: its index would take longer than the rest of the load.
    """

    __abstract__ = True

    @declared_attr.directive
    def __mapper_args__(cls) -> dict[str, Any]:  # noqa: N805
        return {"primary_key": [column for column in cls.__table__.columns if column.info]}


def column(comment: str, *kind: Any, **options: Any) -> MappedColumn[Any]:
    """Return a column with a description."""
    return mapped_column(*kind, comment=comment, **options)


def key(comment: str, **options: Any) -> MappedColumn[Any]:
    """Return a column of the primary key."""
    return column(comment, primary_key=True, **options)


def identity(comment: str) -> MappedColumn[Any]:
    """Return a column that identifies the rows of a table, together with other such columns."""
    return column(comment, info={"identity": True})


class SchemaVersion(Base, table="schema_version"):
    """Version of the layout of this database. One row."""

    version: Mapped[int] = key("Version of the layout; other versions are refused", autoincrement=False)


class RunRow(Base, table="runs"):
    """Runs of a grid, with their software and hardware."""

    run_id: Mapped[str] = key("Unique name of the run")
    grid_name: Mapped[str] = column("Name of the grid in its file")
    grid_key: Mapped[str] = column("Content key of the grid: equal grids have equal keys")
    grid: Mapped[str] = column("The grid as YAML text")
    started_at: Mapped[datetime] = column("Start, UTC")
    finished_at: Mapped[datetime | None] = column("End, UTC; null if it is running or was killed")
    status: Mapped[str] = column("running, done, failed (some cells failed) or interrupted")
    prmcal_version: Mapped[str] = column("Version of prmcal")
    packages: Mapped[dict[str, Any]] = column("Versions of the installed packages, by name")
    hardware: Mapped[dict[str, Any]] = column("Processor, cores, memory and accelerators of the machine")


class PluginRow(Base, table="plugins"):
    """Plugins of the grid: the meaning of the names on the leaderboards."""

    kind: Mapped[str] = key("llm, prm, calibrator, dataset, strategy or metric")
    name: Mapped[str] = key("Name in the grid and on the leaderboards")
    plugin: Mapped[str] = column("Registered name of the plugin")
    arguments: Mapped[dict[str, Any]] = column("Constructor arguments")
    identity: Mapped[dict[str, Any]] = column(
        "What determines its output, as part of job keys: version, hash of weights, ..."
    )
    citation: Mapped[str] = column("Where it was published; empty if it was not", default="")
    position: Mapped[int] = column("Index in its list of the grid, from 0; rows are sorted by it", default=0)


class DescribedMetric(Base, table="metrics"):
    """Metrics of the leaderboards: their titles, directions and meaning."""

    name: Mapped[str] = key("Name of the metric: results.metric")
    leaderboard: Mapped[str] = column("calibration, scaling or league")
    title: Mapped[str] = column("Title of the column")
    better: Mapped[str | None] = column("lower, higher or near zero: which value wins; null: none does by itself")
    description: Mapped[str] = column("What it measures")
    position: Mapped[int] = column("Index of the column, from 0; rows are sorted by it")


class DatasetRow(Base, table="datasets"):
    """Splits of data sets that were used."""

    name: Mapped[str] = key("Name in the grid")
    split: Mapped[str] = key("Split, e.g. calibration or test")
    content_hash: Mapped[str] = column("Hash of the questions that are used, in their order")
    questions: Mapped[int] = column("Number of questions that are used")
    grader_version: Mapped[str] = column("Version of the grading rules")


class QuestionRow(Base, table="questions"):
    """Questions of the data sets."""

    dataset: Mapped[str] = key("Data set: datasets.name")
    split: Mapped[str] = key("Split: datasets.split")
    question_id: Mapped[str] = key("Identifier within the split")
    text: Mapped[str] = column("Text of the question")
    answer: Mapped[str] = column("Reference answer")
    level: Mapped[str | None] = column("Difficulty, a number such as 1 (easy) to 5 (hard), or a word")
    subject: Mapped[str | None] = column("Topic")
    fields: Mapped[dict[str, Any]] = column("Other fields by which results are grouped, such as language", default={})


class JobRow(Base, table="jobs"):
    """Jobs of the plan, with parameters, status and cost."""

    job_key: Mapped[str] = key("Content key: hash of everything that determines the output")
    kind: Mapped[str] = column("Kind of job, e.g. rollout, success, score, fit, calibrated or strategy")
    llm: Mapped[str | None] = column("LLM: plugins.name")
    prm: Mapped[str | None] = column("PRM: plugins.name")
    calibrator: Mapped[str | None] = column("Calibrator: plugins.name")
    dataset: Mapped[str | None] = column("Data set: datasets.name")
    split: Mapped[str | None] = column("Split: datasets.split")
    parameters: Mapped[dict[str, Any]] = column("Parameters of the computation, and the keys of the shards")
    status: Mapped[str] = column("done, failed, blocked (an input failed) or pending")
    reason: Mapped[str | None] = column("Why it failed or is blocked; null otherwise")
    shards: Mapped[int] = column("Number of shards", default=0)
    seconds: Mapped[float] = column("Wall time of all shards together, in seconds", default=0.0)
    samples: Mapped[int] = column("Number of completions drawn", sa.BigInteger, default=0)
    generated_tokens: Mapped[int] = column("Number of tokens generated by an LLM", sa.BigInteger, default=0)
    scored_tokens: Mapped[int] = column("Number of tokens read by a PRM", sa.BigInteger, default=0)


class JobInput(Base, table="job_inputs"):
    """Dependencies between jobs."""

    job_key: Mapped[str] = key("The job that reads: jobs.job_key")
    input_key: Mapped[str] = key("The job whose output it reads: jobs.job_key")
