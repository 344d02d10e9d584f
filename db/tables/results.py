"""Tables of measurements: cells, results, bins and comparisons."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from prmcal.db.metrics import TIERS
from prmcal.db.tables.base import Base, identified_by

__all__ = ["Cell", "Comparison", "QuestionResult", "ReliabilityBin", "Result", "SignedErrorBin"]


class Cell(Base):
    """A row of a leaderboard."""

    __tablename__ = "cells"
    __table_args__ = (
        sa.CheckConstraint("leaderboard IN ('calibration', 'scaling', 'league')"),
        sa.CheckConstraint("status IN ('done', 'failed', 'pending')"),
        {"comment": "Cells of the grid. A failed cell is a row with the reason."},
    )

    cell_id: Mapped[str] = mapped_column(
        primary_key=True, comment="Readable identifier, the same in every run"
    )
    leaderboard: Mapped[str] = mapped_column(comment="calibration, scaling or league")
    llm: Mapped[str] = mapped_column(comment="LLM: plugins.name")
    prm: Mapped[str | None] = mapped_column(comment="PRM: plugins.name; null if the strategy uses none")
    calibrator: Mapped[str | None] = mapped_column(
        comment="Calibrator: plugins.name; null if the strategy uses none"
    )
    dataset: Mapped[str] = mapped_column(comment="Data set of the test questions: plugins.name")
    strategy: Mapped[str | None] = mapped_column(
        comment="Strategy: plugins.name; null on the calibration leaderboard"
    )
    target: Mapped[float | None] = mapped_column(
        comment="Target probability C in (0, 1); null if the strategy has none"
    )
    level: Mapped[float | None] = mapped_column(
        comment="Quantile level beta in (0, 1); null if no calibrated reward is read, or only the median"
    )
    job_key: Mapped[str | None] = mapped_column(comment="Job that measured it: jobs.job_key")
    status: Mapped[str] = mapped_column(comment="done, failed or pending")
    reason: Mapped[str | None] = mapped_column(comment="Why it failed; null unless failed")
    base_id: Mapped[str | None] = mapped_column(
        comment="Identifier by the names in the grids, which cells of several versions or seeds share; null: cell_id"
    )
    seed: Mapped[int | None] = mapped_column(
        sa.BigInteger, comment="Seed of the grid that measured it; null in the database of a run"
    )
    conditions: Mapped[str] = mapped_column(
        default="",
        comment="Conditions in which it differs from other cells of a merged leaderboard, e.g. seed 2; bins 5. Cells "
        "compete only under equal conditions",
    )
    version: Mapped[str] = mapped_column(
        default="",
        comment="Difference of its calibrator or strategy from the newest cell under the same conditions; empty for "
        "the newest",
    )
    conflict: Mapped[bool] = mapped_column(
        default=False, comment="Whether another submission has other bytes under a key behind it"
    )
    measured_at: Mapped[datetime | None] = mapped_column(
        comment="End of the run that measured it, UTC; null in the database of a run"
    )
    outdated: Mapped[str | None] = mapped_column(
        comment="Versions of jobs, plugins or graders behind it that are no longer current; null if all are"
    )
    tier: Mapped[str | None] = mapped_column(
        comment="Highest tier at which one of its submissions was verified: verifications.tier; null if none was"
    )
    verified_by: Mapped[str | None] = mapped_column(
        comment="Who verified it at this tier; null if nobody did"
    )
    verified_at: Mapped[datetime | None] = mapped_column(comment="When, UTC; null if nobody did")

    @classmethod
    def at_tier(cls, tier: str) -> sa.ColumnElement[bool]:
        """Return the condition that a cell was verified at this tier or at a higher one."""
        return cls.tier.in_(TIERS[TIERS.index(tier) :])


class Result(Base):
    """A measured value with its 95% interval."""

    __tablename__ = "results"
    __table_args__ = ({"comment": "Measured values with 95% intervals over questions."},)

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    metric: Mapped[str] = mapped_column(comment="Name of the metric, e.g. brier or accuracy")
    question_level: Mapped[int | None] = mapped_column(
        comment="Difficulty of the questions; null: all questions"
    )
    value: Mapped[float] = mapped_column(comment="The value")
    low: Mapped[float | None] = mapped_column(comment="Lower end of the 95% interval; null: single question")
    high: Mapped[float | None] = mapped_column(comment="Upper end of the 95% interval; null: single question")
    rows: Mapped[int] = mapped_column(comment="Number of prefixes or trajectories behind the value")
    questions: Mapped[int] = mapped_column(comment="Number of questions behind the value")

    __mapper_args__ = identified_by(cell_id, metric, question_level)


class QuestionResult(Base):
    """A measured value of one question."""

    __tablename__ = "question_results"
    __table_args__ = (
        {
            "comment": "Measured values of single questions, whose mean is the result. A ratio of two sums over the "
            "questions has linearised values. Calibration cells have only the metric that ranks calibrators."
        },
    )

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    question_level: Mapped[int | None] = mapped_column(comment="Difficulty of the question, 1 to 5")
    metric: Mapped[str] = mapped_column(comment="Name of the metric, e.g. accuracy or samples")
    value: Mapped[float] = mapped_column(comment="The value")

    __mapper_args__ = identified_by(cell_id, question_id, metric)


class ReliabilityBin(Base):
    """A bin of a reliability diagram."""

    __tablename__ = "reliability_bins"
    __table_args__ = ({"comment": "Reliability diagrams: rewards and success rates in bins of equal width."},)

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    bin: Mapped[int] = mapped_column(comment="Index of the bin, from 0")
    lower: Mapped[float] = mapped_column(comment="Lower edge of the reward")
    upper: Mapped[float] = mapped_column(comment="Upper edge of the reward")
    count: Mapped[int] = mapped_column(comment="Number of prefixes in the bin")
    mean_reward: Mapped[float | None] = mapped_column(comment="Mean reward; null: empty bin")
    mean_success: Mapped[float | None] = mapped_column(comment="Mean success rate; null: empty bin")
    low: Mapped[float | None] = mapped_column(
        comment="Lower end of the 95% interval of the mean success rate"
    )
    high: Mapped[float | None] = mapped_column(
        comment="Upper end of the 95% interval of the mean success rate"
    )

    __mapper_args__ = identified_by(cell_id, bin)


class SignedErrorBin(Base):
    """A bar of a histogram of signed errors."""

    __tablename__ = "signed_error_bins"
    __table_args__ = (
        {"comment": "Histograms of reward minus success rate, in [-1, 1]. Values above 0 are overestimates."},
    )

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    bin: Mapped[int] = mapped_column(comment="Index of the bar, from 0")
    lower: Mapped[float] = mapped_column(comment="Lower edge of the error")
    upper: Mapped[float] = mapped_column(comment="Upper edge of the error")
    count: Mapped[int] = mapped_column(comment="Number of prefixes in the bar")

    __mapper_args__ = identified_by(cell_id, bin)


class Comparison(Base):
    """A paired comparison of two cells."""

    __tablename__ = "comparisons"
    __table_args__ = ({"comment": "Paired comparisons of cells by bootstrap over their common questions."},)

    leaderboard: Mapped[str] = mapped_column(primary_key=True, comment="calibration, scaling or league")
    metric: Mapped[str] = mapped_column(primary_key=True, comment="Name of the metric")
    cell_a: Mapped[str] = mapped_column(primary_key=True, comment="First cell: cells.cell_id")
    cell_b: Mapped[str] = mapped_column(primary_key=True, comment="Second cell: cells.cell_id")
    difference: Mapped[float] = mapped_column(
        comment="First value minus second value; of the absolute values if the best value is 0"
    )
    low: Mapped[float | None] = mapped_column(comment="Lower end of the 95% interval of the difference")
    high: Mapped[float | None] = mapped_column(comment="Upper end of the 95% interval of the difference")
    p_value: Mapped[float | None] = mapped_column(comment="Two-sided p value, not adjusted")
    p_adjusted: Mapped[float | None] = mapped_column(
        comment="p value after Holm's correction over all pairs of the group and metric"
    )
    questions: Mapped[int] = mapped_column(comment="Number of common questions")
