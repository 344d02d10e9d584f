"""The base of all tables, and the tables of runs: the plan, its jobs, and submissions of merged leaderboards.

No table declares a foreign key, because DuckDB cannot delete a parent and its child in one transaction. The comments of
the columns name the columns that they refer to.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from prmcal.db.metrics import TIERS

SCHEMA_VERSION = 8
"""The layout. Raise it with every change of a table. Databases of other layouts are built again: `prmcal rebuild`."""


class Base(DeclarativeBase):
    """Base of every table. ``float`` has 64 bits; ``datetime`` is UTC without a time zone."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        float: sa.Double(),
        str: sa.Text(),
        datetime: sa.DateTime(),
        dict[str, Any]: sa.JSON(),
    }


def identified_by(*columns: Mapped[Any]) -> dict[str, Any]:
    """Tell the mapper which columns identify a row of a table without a primary key in the database.

    Tables that are loaded in bulk have no primary key: its index would take longer than the rest of the load.
    """
    return {"primary_key": columns}


class SchemaVersion(Base):
    """The version of the layout of the database."""

    __tablename__ = "schema_version"
    __table_args__ = ({"comment": "Version of the layout of this database. One row."},)

    version: Mapped[int] = mapped_column(
        primary_key=True, autoincrement=False, comment="Version of the layout; other versions are refused"
    )


class Run(Base):
    """One run of a grid."""

    __tablename__ = "runs"
    __table_args__ = (
        sa.CheckConstraint("status IN ('running', 'done', 'failed', 'interrupted')"),
        {"comment": "Runs of a grid, with their software and hardware."},
    )

    run_id: Mapped[str] = mapped_column(primary_key=True, comment="Unique name of the run")
    grid_name: Mapped[str] = mapped_column(comment="Name of the grid in its file")
    grid_key: Mapped[str] = mapped_column(comment="Content key of the grid: equal grids have equal keys")
    grid: Mapped[str] = mapped_column(comment="The grid as YAML text")
    started_at: Mapped[datetime] = mapped_column(comment="Start, UTC")
    finished_at: Mapped[datetime | None] = mapped_column(
        comment="End, UTC; null if it is running or was killed"
    )
    status: Mapped[str] = mapped_column(comment="running, done, failed (some cells failed) or interrupted")
    prmcal_version: Mapped[str] = mapped_column(comment="Version of prmcal")
    packages: Mapped[dict[str, Any]] = mapped_column(comment="Versions of the installed packages, by name")
    hardware: Mapped[dict[str, Any]] = mapped_column(
        comment="Processor, cores, memory and accelerators of the machine"
    )


class Plugin(Base):
    """A plugin with the name that the grid gives it."""

    __tablename__ = "plugins"
    __table_args__ = (
        sa.CheckConstraint("kind IN ('llm', 'prm', 'calibrator', 'dataset', 'strategy', 'metric')"),
        {"comment": "Plugins of the grid: the meaning of the names on the leaderboards."},
    )

    kind: Mapped[str] = mapped_column(
        primary_key=True, comment="llm, prm, calibrator, dataset, strategy or metric"
    )
    name: Mapped[str] = mapped_column(primary_key=True, comment="Name in the grid and on the leaderboards")
    plugin: Mapped[str] = mapped_column(comment="Registered name of the plugin")
    arguments: Mapped[dict[str, Any]] = mapped_column(comment="Constructor arguments")
    identity: Mapped[dict[str, Any]] = mapped_column(
        comment="What determines its output, as part of job keys: version, hash of weights, ..."
    )
    citation: Mapped[str] = mapped_column(default="", comment="Where it was published; empty if it was not")
    position: Mapped[int] = mapped_column(
        default=0, comment="Index in its list of the grid, from 0; rows are sorted by it"
    )


class DescribedMetric(Base):
    """What readers see of a metric."""

    __tablename__ = "metrics"
    __table_args__ = (
        sa.CheckConstraint("leaderboard IN ('calibration', 'scaling', 'league')"),
        sa.CheckConstraint("better IN ('lower', 'higher', 'near zero')"),
        {"comment": "Metrics of the leaderboards: their titles, directions and meaning."},
    )

    name: Mapped[str] = mapped_column(primary_key=True, comment="Name of the metric: results.metric")
    leaderboard: Mapped[str] = mapped_column(comment="calibration, scaling or league")
    title: Mapped[str] = mapped_column(comment="Title of the column")
    better: Mapped[str | None] = mapped_column(
        comment="lower, higher or near zero: which value wins; null: none does by itself"
    )
    description: Mapped[str] = mapped_column(comment="What it measures")
    position: Mapped[int] = mapped_column(comment="Index of the column, from 0; rows are sorted by it")


class Dataset(Base):
    """A split of a data set."""

    __tablename__ = "datasets"
    __table_args__ = ({"comment": "Splits of data sets that were used."},)

    name: Mapped[str] = mapped_column(primary_key=True, comment="Name in the grid")
    split: Mapped[str] = mapped_column(primary_key=True, comment="Split, e.g. calibration or test")
    content_hash: Mapped[str] = mapped_column(comment="Hash of the questions that are used, in their order")
    questions: Mapped[int] = mapped_column(comment="Number of questions that are used")
    grader_version: Mapped[str] = mapped_column(comment="Version of the grading rules")


class Question(Base):
    """A problem."""

    __tablename__ = "questions"
    __table_args__ = ({"comment": "Questions of the data sets."},)

    dataset: Mapped[str] = mapped_column(primary_key=True, comment="Data set: datasets.name")
    split: Mapped[str] = mapped_column(primary_key=True, comment="Split: datasets.split")
    question_id: Mapped[str] = mapped_column(primary_key=True, comment="Identifier within the split")
    text: Mapped[str | None] = mapped_column(
        comment="Text of the question; null if the submission has no texts"
    )
    answer: Mapped[str | None] = mapped_column(
        comment="Reference answer; null if the submission has no texts"
    )
    level: Mapped[int | None] = mapped_column(comment="Difficulty, 1 (easy) to 5 (hard)")
    subject: Mapped[str | None] = mapped_column(comment="Topic")


class Job(Base):
    """A job of the plan, with all of its shards."""

    __tablename__ = "jobs"
    __table_args__ = (
        sa.CheckConstraint("status IN ('done', 'failed', 'blocked', 'pending')"),
        {"comment": "Jobs of the plan, with parameters, seed, status and cost."},
    )

    job_key: Mapped[str] = mapped_column(
        primary_key=True, comment="Content key: hash of everything that determines the output"
    )
    kind: Mapped[str] = mapped_column(
        comment="Kind of job, e.g. rollout, success, score, fit, calibrated or strategy"
    )
    llm: Mapped[str | None] = mapped_column(comment="LLM: plugins.name")
    prm: Mapped[str | None] = mapped_column(comment="PRM: plugins.name")
    calibrator: Mapped[str | None] = mapped_column(comment="Calibrator: plugins.name")
    dataset: Mapped[str | None] = mapped_column(comment="Data set: datasets.name")
    split: Mapped[str | None] = mapped_column(comment="Split: datasets.split")
    conditions: Mapped[str] = mapped_column(
        default="",
        comment="Conditions of curves on a merged leaderboard: cells.conditions; empty for other jobs",
    )
    parameters: Mapped[dict[str, Any]] = mapped_column(
        comment="Parameters of the computation, and the keys of the shards"
    )
    seed: Mapped[int | None] = mapped_column(
        sa.BigInteger, comment="Seed, derived from the key; null if unused"
    )
    status: Mapped[str] = mapped_column(comment="done, failed, blocked (an input failed) or pending")
    reason: Mapped[str | None] = mapped_column(comment="Why it failed or is blocked; null otherwise")
    shards: Mapped[int] = mapped_column(default=0, comment="Number of shards")
    seconds: Mapped[float] = mapped_column(
        default=0.0, comment="Wall time of all shards together, in seconds"
    )
    samples: Mapped[int] = mapped_column(sa.BigInteger, default=0, comment="Number of completions drawn")
    generated_tokens: Mapped[int] = mapped_column(
        sa.BigInteger, default=0, comment="Number of tokens generated by an LLM"
    )
    scored_tokens: Mapped[int] = mapped_column(
        sa.BigInteger, default=0, comment="Number of tokens read by a PRM"
    )


class JobInput(Base):
    """A dependency between two jobs."""

    __tablename__ = "job_inputs"
    __table_args__ = ({"comment": "Dependencies between jobs."},)

    job_key: Mapped[str] = mapped_column(primary_key=True, comment="The job that reads: jobs.job_key")
    input_key: Mapped[str] = mapped_column(
        primary_key=True, comment="The job whose output it reads: jobs.job_key"
    )


class Submission(Base):
    """Results that were merged into the leaderboard together."""

    __tablename__ = "submissions"
    __table_args__ = (
        {"comment": "What was merged: bundles, and folders of runs. Empty for a run's own database."},
    )

    submission_id: Mapped[str] = mapped_column(
        primary_key=True, comment="First 12 hexadecimal digits of the hash of its content"
    )
    submitter: Mapped[str] = mapped_column(comment="Name that the submitter gave; empty for a run's folder")
    licence: Mapped[str] = mapped_column(comment="Licence of the results; empty for a run's folder")
    note: Mapped[str] = mapped_column(default="", comment="Note of the submitter")
    signed_by: Mapped[str | None] = mapped_column(
        comment="Fingerprint of the key of its valid signature; null if it is not signed"
    )
    run_id: Mapped[str] = mapped_column(comment="Run that measured it: runs.run_id")
    cells: Mapped[int] = mapped_column(comment="Number of finished cells that came with it")
    texts: Mapped[bool] = mapped_column(comment="Whether it has the texts of questions and trajectories")


class CellSubmission(Base):
    """A cell that came with a submission."""

    __tablename__ = "cell_submissions"
    __table_args__ = (
        {"comment": "Which submissions have which cells. Equal results of several are one cell."},
    )

    cell_id: Mapped[str] = mapped_column(primary_key=True, comment="Cell: cells.cell_id")
    submission_id: Mapped[str] = mapped_column(
        primary_key=True, comment="Submission: submissions.submission_id"
    )


class Verification(Base):
    """A verification of a submission."""

    __tablename__ = "verifications"
    __table_args__ = (
        sa.CheckConstraint(f"tier IN {TIERS}"),
        {"comment": "Verifications of submissions. A verification that failed stays, with its checks."},
    )

    verification_id: Mapped[str] = mapped_column(
        primary_key=True, comment="First 12 hexadecimal digits of the hash of its record"
    )
    submission_id: Mapped[str] = mapped_column(comment="Submission: submissions.submission_id")
    tier: Mapped[str] = mapped_column(
        comment="Highest tier that it tried: consistent, graded again, scored again or reproduced"
    )
    passed: Mapped[bool] = mapped_column(
        comment="Whether all checks of this tier and of those before it passed"
    )
    verified_by: Mapped[str] = mapped_column(comment="Name of who verified it")
    verified_at: Mapped[datetime] = mapped_column(comment="When, UTC")
    prmcal_version: Mapped[str] = mapped_column(comment="Version of prmcal that verified it")
    checks: Mapped[dict[str, Any]] = mapped_column(comment="The checks with their numbers, as in its record")


class SeedSpread(Base):
    """The spread of a value between seeds."""

    __tablename__ = "seed_spreads"
    __table_args__ = (
        {"comment": "Cells that differ only in the seed: the spread of their values over all questions."},
    )

    cell_id: Mapped[str] = mapped_column(primary_key=True, comment="Cell: cells.cell_id")
    metric: Mapped[str] = mapped_column(primary_key=True, comment="Name of the metric: results.metric")
    seeds: Mapped[int] = mapped_column(comment="Number of seeds, at least 2")
    mean: Mapped[float] = mapped_column(comment="Mean of the values of all seeds")
    standard_deviation: Mapped[float] = mapped_column(
        comment="Standard deviation of the values between seeds, with n - 1 in the denominator"
    )
    lowest: Mapped[float] = mapped_column(comment="Lowest value of a seed")
    highest: Mapped[float] = mapped_column(comment="Highest value of a seed")
