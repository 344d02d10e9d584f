"""Tables of what was run: runs, plugins, data sets, questions and jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from prmcal.db.tables.base import Base

__all__ = ["Dataset", "Job", "JobInput", "Plugin", "Question", "Run", "SchemaVersion"]


class SchemaVersion(Base):
    """One row."""

    __tablename__ = "schema_version"
    __table_args__ = ({"comment": "Version of this database's layout. One row."},)

    version: Mapped[int] = mapped_column(
        primary_key=True, autoincrement=False, comment="Number of the layout; other versions are refused"
    )


class Run(Base):
    """One invocation over a grid."""

    __tablename__ = "runs"
    __table_args__ = (
        sa.CheckConstraint("status IN ('running', 'done', 'failed', 'interrupted')"),
        {"comment": "Invocations over a grid, and the software and hardware they ran on."},
    )

    run_id: Mapped[str] = mapped_column(primary_key=True, comment="Unique name of the run")
    grid_name: Mapped[str] = mapped_column(comment="Name of the grid, as its file says")
    grid_key: Mapped[str] = mapped_column(comment="Content key of the grid: equal grids have equal keys")
    grid: Mapped[str] = mapped_column(comment="The grid as YAML text")
    started_at: Mapped[datetime] = mapped_column(comment="When it started, UTC")
    finished_at: Mapped[datetime | None] = mapped_column(
        comment="When it ended, UTC; null while it runs or if killed"
    )
    status: Mapped[str] = mapped_column(comment="running, done, failed (some cells failed) or interrupted")
    prmcal_version: Mapped[str] = mapped_column(comment="Version of prmcal")
    packages: Mapped[dict[str, Any]] = mapped_column(comment="Versions of the packages that it used, by name")
    hardware: Mapped[dict[str, Any]] = mapped_column(comment="Machine: processor, cores, memory, accelerator")


class Plugin(Base):
    """A plugin under the label that the grid gives it."""

    __tablename__ = "plugins"
    __table_args__ = (
        sa.CheckConstraint("kind IN ('llm', 'prm', 'calibrator', 'dataset', 'strategy')"),
        {"comment": "Plugins of the grid: what a name on the leaderboard stands for."},
    )

    kind: Mapped[str] = mapped_column(primary_key=True, comment="llm, prm, calibrator, dataset or strategy")
    name: Mapped[str] = mapped_column(primary_key=True, comment="Label in the grid and on the leaderboard")
    plugin: Mapped[str] = mapped_column(comment="Registered name of the plugin")
    arguments: Mapped[dict[str, Any]] = mapped_column(comment="Constructor arguments")
    identity: Mapped[dict[str, Any]] = mapped_column(
        comment="All that decides its output and stands in job keys: weights' hash, template, version"
    )
    position: Mapped[int] = mapped_column(
        default=0, comment="Place within its list of the grid, from 0: the order of rows"
    )


class Dataset(Base):
    """A split of a data set, named by what it holds."""

    __tablename__ = "datasets"
    __table_args__ = ({"comment": "Splits of data sets that were used."},)

    name: Mapped[str] = mapped_column(primary_key=True, comment="Label in the grid")
    split: Mapped[str] = mapped_column(primary_key=True, comment="Split, e.g. calibration or test")
    content_hash: Mapped[str] = mapped_column(comment="Hash of the questions used, in their order")
    questions: Mapped[int] = mapped_column(comment="Number of questions used")
    grader_version: Mapped[str] = mapped_column(comment="Version of the rules that grade answers")


class Question(Base):
    """A problem."""

    __tablename__ = "questions"
    __table_args__ = ({"comment": "Questions of the data sets."},)

    dataset: Mapped[str] = mapped_column(primary_key=True, comment="Data set: datasets.name")
    split: Mapped[str] = mapped_column(primary_key=True, comment="Split: datasets.split")
    question_id: Mapped[str] = mapped_column(primary_key=True, comment="Identifier within the split")
    text: Mapped[str] = mapped_column(comment="What the LLM reads")
    answer: Mapped[str] = mapped_column(comment="Reference answer")
    level: Mapped[int | None] = mapped_column(comment="Difficulty, 1 (easy) to 5 (hard)")
    subject: Mapped[str | None] = mapped_column(comment="Topic")


class Job(Base):
    """A unit of work: all of its shards together."""

    __tablename__ = "jobs"
    __table_args__ = (
        sa.CheckConstraint("status IN ('done', 'failed', 'blocked', 'pending')"),
        {"comment": "Jobs of the plan: what was computed, from which seed, at what cost."},
    )

    job_key: Mapped[str] = mapped_column(
        primary_key=True, comment="Content key: hash of all that decides the output"
    )
    kind: Mapped[str] = mapped_column(
        comment="rollout, success, score, fit, calibrated, search, strategy, or another measurement"
    )
    llm: Mapped[str | None] = mapped_column(comment="LLM: plugins.name")
    prm: Mapped[str | None] = mapped_column(comment="PRM: plugins.name")
    calibrator: Mapped[str | None] = mapped_column(comment="Calibrator: plugins.name")
    dataset: Mapped[str | None] = mapped_column(comment="Data set: datasets.name")
    split: Mapped[str | None] = mapped_column(comment="Split: datasets.split")
    parameters: Mapped[dict[str, Any]] = mapped_column(comment="Everything else that decides the output")
    seed: Mapped[int | None] = mapped_column(
        sa.BigInteger, comment="Seed, which follows from the key; null if unused"
    )
    status: Mapped[str] = mapped_column(comment="done, failed, blocked (by a failed input) or pending")
    reason: Mapped[str | None] = mapped_column(comment="Why it failed or is blocked")
    shards: Mapped[int] = mapped_column(default=0, comment="Number of shards")
    seconds: Mapped[float] = mapped_column(
        default=0.0, comment="Wall time of the computation, all shards, in seconds"
    )
    samples: Mapped[int] = mapped_column(sa.BigInteger, default=0, comment="Completions drawn")
    generated_tokens: Mapped[int] = mapped_column(
        sa.BigInteger, default=0, comment="Tokens that an LLM generated"
    )
    scored_tokens: Mapped[int] = mapped_column(sa.BigInteger, default=0, comment="Tokens that a PRM read")


class JobInput(Base):
    """An edge of the plan."""

    __tablename__ = "job_inputs"
    __table_args__ = ({"comment": "Which job reads the output of which."},)

    job_key: Mapped[str] = mapped_column(primary_key=True, comment="The job that reads: jobs.job_key")
    input_key: Mapped[str] = mapped_column(
        primary_key=True, comment="The job whose output it reads: jobs.job_key"
    )
