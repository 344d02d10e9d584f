"""The tables of what is measured: cells, their results, and curves of accuracy and risk."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from prmcal.db.metrics import TIERS
from prmcal.db.tables.runs import Base, identified_by


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


class CurvePoint(Base):
    """A point of a curve of accuracy against budget."""

    __tablename__ = "curve_points"
    __table_args__ = (
        {
            "comment": "Accuracy against budget, computed exactly from the pool: best-of-n + IAS for the paper's eight "
            "targets C at every level beta, or best-of-n with a fixed n if the job has no calibrator."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job: jobs.job_key, which has the coordinates")
    level: Mapped[float | None] = mapped_column(comment="Quantile level beta; null: fixed n")
    target: Mapped[float | None] = mapped_column(comment="Target probability C; null: fixed n")
    question_level: Mapped[int | None] = mapped_column(
        comment="Difficulty of the questions; null: all questions"
    )
    point: Mapped[int] = mapped_column(comment="Index on the curve, from 0")
    samples: Mapped[float] = mapped_column(comment="Mean samples per question")
    samples_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    samples_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    accuracy: Mapped[float] = mapped_column(comment="Share of questions that are answered correctly")
    accuracy_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    accuracy_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    questions: Mapped[int] = mapped_column(comment="Number of questions")

    __mapper_args__ = identified_by(job_key, level, question_level, point)


class CurveArea(Base):
    """The area under a curve."""

    __tablename__ = "curve_areas"
    __table_args__ = (
        {
            "comment": "Areas under curves. area: mean accuracy over budgets from 1 sample to N, on a logarithmic "
            "scale. risk_coverage_area: mean risk over all coverages if questions with low rewards are not answered."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job: jobs.job_key, which has the coordinates")
    name: Mapped[str] = mapped_column(
        comment="area (higher is better) or risk_coverage_area (lower is better)"
    )
    level: Mapped[float | None] = mapped_column(comment="Quantile level beta; null: fixed n")
    value: Mapped[float] = mapped_column(comment="The area, in [0, 1]")
    low: Mapped[float | None] = mapped_column(comment="Lower end of the 95% interval; null: single question")
    high: Mapped[float | None] = mapped_column(comment="Upper end of the 95% interval; null: single question")
    questions: Mapped[int] = mapped_column(comment="Number of questions")

    __mapper_args__ = identified_by(job_key, name, level)


class RiskPoint(Base):
    """Risk and coverage of selective answering at one threshold."""

    __tablename__ = "risk_points"
    __table_args__ = (
        {
            "comment": "Selective answering: best-of-N answers only the questions whose calibrated reward is at least "
            "a threshold."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job: jobs.job_key, which has the coordinates")
    level: Mapped[float] = mapped_column(comment="Quantile level beta of the reward")
    threshold: Mapped[float] = mapped_column(comment="Questions with at least this reward are answered")
    coverage: Mapped[float] = mapped_column(comment="Share of questions that are answered")
    coverage_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    coverage_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    risk: Mapped[float] = mapped_column(
        comment="Share of wrong answers among the answered questions; 0: none is answered"
    )
    risk_low: Mapped[float | None] = mapped_column(
        comment="Lower end of its 95% interval; null: fewer than two questions are answered"
    )
    risk_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    questions: Mapped[int] = mapped_column(comment="Number of questions")

    __mapper_args__ = identified_by(job_key, level, threshold)


class SampleAccuracy(Base):
    """Accuracy of best-of-n on one question."""

    __tablename__ = "sample_accuracies"
    __table_args__ = (
        {
            "comment": "Accuracy of best-of-n on every question for every n, computed exactly from the pool. Results "
            "for any C and level beta follow from it."
        },
    )

    job_key: Mapped[str] = mapped_column(comment="Curves job without a calibrator: jobs.job_key")
    question_id: Mapped[str] = mapped_column(comment="Question: questions.question_id")
    question_level: Mapped[int | None] = mapped_column(comment="Difficulty of the question")
    samples: Mapped[int] = mapped_column(comment="Samples n, from 1 to N")
    accuracy: Mapped[float] = mapped_column(
        comment="Expected accuracy of the sample with the highest score among n"
    )

    __mapper_args__ = identified_by(job_key, question_id, samples)


class LeaguePoint(Base):
    """A point of the curve of a strategy."""

    __tablename__ = "league_points"
    __table_args__ = (
        {
            "comment": "Curves of accuracy against samples of the strategies of the league, one for each of its cells."
        },
    )

    cell_id: Mapped[str] = mapped_column(comment="Cell: cells.cell_id")
    point: Mapped[int] = mapped_column(comment="Index on the curve, from 0; 0: one sample of each question")
    samples: Mapped[float] = mapped_column(comment="Mean samples per question")
    samples_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    samples_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    accuracy: Mapped[float] = mapped_column(comment="Share of questions that are answered correctly")
    accuracy_low: Mapped[float | None] = mapped_column(comment="Lower end of its 95% interval")
    accuracy_high: Mapped[float | None] = mapped_column(comment="Upper end of its 95% interval")
    order_error: Mapped[float] = mapped_column(
        comment="Largest standard error of an accuracy of the curve from a limited number of random orders; 0: exact"
    )
    questions: Mapped[int] = mapped_column(comment="Number of questions")

    __mapper_args__ = identified_by(cell_id, point)
