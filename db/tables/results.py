"""Tables of what was measured: cells, results, bins and comparisons."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from prmcal.db.tables.base import Base, identified_by

__all__ = ["Cell", "Comparison", "QuestionResult", "ReliabilityBin", "Result", "SignedErrorBin"]


class Cell(Base):
    """A row of one of the two leaderboards."""

    __tablename__ = "cells"
    __table_args__ = (
        sa.CheckConstraint("leaderboard IN ('calibration', 'scaling')"),
        sa.CheckConstraint("status IN ('done', 'failed', 'pending')"),
        {"comment": "Cells of the grid. A failed cell is a row with its reason."},
    )

    cell_id: Mapped[str] = mapped_column(
        primary_key=True, comment="Readable identifier, stable from run to run"
    )
    leaderboard: Mapped[str] = mapped_column(comment="calibration or scaling")
    llm: Mapped[str] = mapped_column(comment="LLM: plugins.name")
    prm: Mapped[str | None] = mapped_column(
        comment="PRM: plugins.name; null where none is used (pass@1, majority vote)"
    )
    calibrator: Mapped[str | None] = mapped_column(
        comment="Calibrator: plugins.name; null where none is used"
    )
    dataset: Mapped[str] = mapped_column(comment="Data set tested on: plugins.name")
    strategy: Mapped[str | None] = mapped_column(
        comment="Strategy: plugins.name, e.g. best-of-n + IAS; null for calibration"
    )
    target: Mapped[float | None] = mapped_column(
        comment="Target probability C in (0, 1), if the strategy has one"
    )
    level: Mapped[float | None] = mapped_column(comment="Quantile level beta in (0, 1), if it reads rewards")
    job_key: Mapped[str | None] = mapped_column(comment="Job that measured it: jobs.job_key")
    status: Mapped[str] = mapped_column(comment="done, failed or pending")
    reason: Mapped[str | None] = mapped_column(comment="Why it failed")


class Result(Base):
    """A measured value with its interval."""

    __tablename__ = "results"
    __table_args__ = (
        {"comment": "Measured values, each with its 95% interval by bootstrap over questions."},
    )

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    metric: Mapped[str] = mapped_column(comment="Name of the metric, e.g. brier or accuracy")
    question_level: Mapped[int | None] = mapped_column(
        comment="Questions of this difficulty only; null is all"
    )
    value: Mapped[float] = mapped_column(comment="The value")
    low: Mapped[float | None] = mapped_column(
        comment="Lower end of the 95% interval; null for a single question"
    )
    high: Mapped[float | None] = mapped_column(
        comment="Upper end of the 95% interval; null for a single question"
    )
    rows: Mapped[int] = mapped_column(comment="Number of rows (prefixes or trajectories) behind it")
    questions: Mapped[int] = mapped_column(comment="Number of questions behind it, the unit of the bootstrap")

    __mapper_args__ = identified_by(cell_id, metric, question_level)


class QuestionResult(Base):
    """The value of one question."""

    __tablename__ = "question_results"
    __table_args__ = ({"comment": "Measured values of single questions."},)

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    question_level: Mapped[int | None] = mapped_column(comment="Difficulty of the question, 1 to 5")
    metric: Mapped[str] = mapped_column(comment="Name of the metric, e.g. accuracy or samples")
    value: Mapped[float] = mapped_column(comment="The value")

    __mapper_args__ = identified_by(cell_id, question_id, metric)


class ReliabilityBin(Base):
    """A bin of the reliability diagram."""

    __tablename__ = "reliability_bins"
    __table_args__ = (
        {"comment": "Reliability diagram: rewards against success rates in bins of equal width."},
    )

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    bin: Mapped[int] = mapped_column(comment="Index of the bin, from 0")
    lower: Mapped[float] = mapped_column(comment="Lower edge of the reward")
    upper: Mapped[float] = mapped_column(comment="Upper edge of the reward")
    count: Mapped[int] = mapped_column(comment="Prefixes in the bin")
    mean_reward: Mapped[float | None] = mapped_column(comment="Their mean reward; null in an empty bin")
    mean_success: Mapped[float | None] = mapped_column(
        comment="Their mean success rate; null in an empty bin"
    )
    low: Mapped[float | None] = mapped_column(comment="Lower end of the 95% interval of the success rate")
    high: Mapped[float | None] = mapped_column(comment="Upper end of the 95% interval of the success rate")

    __mapper_args__ = identified_by(cell_id, bin)


class SignedErrorBin(Base):
    """A bar of the signed-error histogram."""

    __tablename__ = "signed_error_bins"
    __table_args__ = (
        {"comment": "Histogram of reward minus success rate, in [-1, 1]; above 0 is overestimated."},
    )

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    bin: Mapped[int] = mapped_column(comment="Index of the bar, from 0")
    lower: Mapped[float] = mapped_column(comment="Lower edge of the error")
    upper: Mapped[float] = mapped_column(comment="Upper edge of the error")
    count: Mapped[int] = mapped_column(comment="Prefixes in the bar")

    __mapper_args__ = identified_by(cell_id, bin)


class Comparison(Base):
    """A paired comparison of two cells."""

    __tablename__ = "comparisons"
    __table_args__ = ({"comment": "Paired comparisons of cells, by bootstrap over their common questions."},)

    leaderboard: Mapped[str] = mapped_column(primary_key=True, comment="calibration or scaling")
    metric: Mapped[str] = mapped_column(primary_key=True, comment="Name of the metric")
    cell_a: Mapped[str] = mapped_column(primary_key=True, comment="First cell: cells.cell_id")
    cell_b: Mapped[str] = mapped_column(primary_key=True, comment="Second cell: cells.cell_id")
    difference: Mapped[float] = mapped_column(
        comment="Value of the first minus value of the second; of the distances from 0 where 0 is best"
    )
    low: Mapped[float | None] = mapped_column(comment="Lower end of the 95% interval of the difference")
    high: Mapped[float | None] = mapped_column(comment="Upper end of the 95% interval of the difference")
    p_value: Mapped[float | None] = mapped_column(comment="Two-sided p value, not adjusted")
    p_adjusted: Mapped[float | None] = mapped_column(
        comment="p value after Holm's correction over its family"
    )
    questions: Mapped[int] = mapped_column(comment="Number of common questions")
